/* The counter in C. */
#include "cellule.h"

static int64_t integer(cl_value record, const char *name) { return cl_to_int(cl_get(record, name)); }

static cl_output count(const cl_input *in) {
    if (cl_text_is(in->schema, "counters/Cleared@1")) return cl_state(cl_null());
    int64_t events = 0, total = 0, by = integer(in->event, "by");
    if (!cl_is_null(in->state)) {
        events = integer(in->state, "events");
        total = integer(in->state, "total");
    }
    if (total + by < 0) return cl_refuse("the total would be below zero", "counters.below_zero");
    events += 1;
    cl_field state[] = {
        {"total", cl_int(total + by)},
        {"events", cl_int(events)},
        {"mean", cl_float((double)(total + by) / (double)events)},
        {"last", cl_get(in->event, "note")},
    };
    cl_output out = cl_state(cl_record(4, state));
    cl_reply(&out, cl_int(total + by));
    if (total < 100 && total + by >= 100) {
        cl_field reached[] = {{"id", cl_get(in->event, "id")}, {"total", cl_int(total + by)}};
        cl_emit(&out, "counters/Reached@1", cl_record(2, reached));
    }
    return out;
}

CELLULE_STEP(count)
