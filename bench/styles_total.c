/* The reducer of the benchmark of styles, in C. */
#include "cellule.h"

static cl_output total(const cl_input *in) {
    cl_value amount = cl_get(in->event, "amount");
    int is_new = cl_is_null(in->state);
    cl_field fields[] = {
        {"is_on", cl_bool(is_new || !cl_to_bool(cl_get(in->state, "is_on")))},
        {"count", cl_int(is_new ? 1 : cl_to_int(cl_get(in->state, "count")) + 1)},
        {"amount", is_new ? amount : cl_int(cl_to_int(cl_get(in->state, "amount")) + cl_to_int(amount))},
    };
    return cl_state(cl_record(3, fields));
}

CELLULE_STEP(total)
