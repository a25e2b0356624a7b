/* The order as a module in C. */
#include "cellule.h"

static cl_output order(const char *status, cl_value cents, cl_value reference, cl_value parcel) {
    cl_field fields[] = {
        {"status", cl_text(status)}, {"cents", cents}, {"reference", reference}, {"parcel", parcel}};
    return cl_state(cl_record(4, fields));
}

static void ask(cl_output *out, const char *kind, const cl_input *in, const char *name) {
    cl_field params[] = {{"order_id", cl_get(in->event, "order_id")}, {name, cl_get(in->event, name)}};
    cl_ask(out, (cl_effect){.kind = kind, .params = cl_record(2, params)});
}

static cl_output step(const cl_input *in) {
    int is_there = !cl_is_null(in->state);
    if (cl_text_is(in->schema, "shop/Placed@1")) {
        if (is_there) return cl_refuse("the order is placed already", "order.placed");
        cl_output out = order("charging", cl_get(in->event, "cents"), cl_text(""), cl_text(""));
        ask(&out, "shop.charge", in, "cents");
        return out;
    }
    int is_shipped = cl_text_is(in->schema, "shop/Shipped@1");
    if (!is_there || (is_shipped && !cl_text_is(cl_get(in->state, "status"), "paid")))
        return cl_refuse("the order is not paid", "order.not_paid");
    cl_value cents = cl_get(in->state, "cents"), reference = cl_get(in->state, "reference");
    cl_value parcel = cl_get(in->state, "parcel");
    if (is_shipped) {
        cl_output out = order("sending", cents, reference, cl_get(in->event, "parcel"));
        ask(&out, "shop.letter", in, "parcel");
        return out;
    }
    if (cl_text_is(cl_get(in->state, "status"), "sending")) return order("done", cents, reference, parcel);
    if (!cl_text_is(cl_get(in->event, "status"), "ok")) return order("unpaid", cents, reference, parcel);
    return order("paid", cents, cl_get(cl_get(in->event, "value"), "reference"), parcel);
}

CELLULE_STEP(step)
