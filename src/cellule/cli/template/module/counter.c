/* A counter: adds what each event brings. A sum below zero is refused. */
#include "cellule.h"

static cl_output count(const cl_input *in) {
    int64_t n = cl_is_null(in->state) ? 0 : cl_to_int(cl_get(in->state, "n"));
    int64_t sum = n + cl_to_int(cl_get(in->event, "n"));
    if (sum < 0) return cl_refuse("the counter would be below zero", "counter.below_zero");
    cl_output out = cl_state(cl_record(1, (cl_field[]){{"n", cl_int(sum)}}));
    cl_reply(&out, cl_int(sum));
    return out;
}

CELLULE_STEP(count)
