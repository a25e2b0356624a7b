/* Cellule modules in C, for wasm32 without a C library. All of the SDK is in this file.
 *
 *     #include "cellule.h"
 *
 *     static cl_output count(const cl_input *in) {
 *         int64_t n = cl_is_null(in->state) ? 0 : cl_to_int(cl_get(in->state, "n"));
 *         return cl_state(cl_record(1, (cl_field[]){{"n", cl_int(n + 1)}}));
 *     }
 *     CELLULE_STEP(count)
 *
 * A value is its canonical bytes, so what was read can be written as it is. Records sort their fields, and
 * integers, lengths and floats take the only form there is: equal values have equal bytes in every language.
 * A value of another type than asked for, a missing field and memory that is used up trap: the step fails, the
 * cell keeps its state. Nothing is freed: every step has an instance, and so a memory, of its own.
 */
#ifndef CELLULE_H
#define CELLULE_H

#include <stdint.h>

#define CL_API static __attribute__((unused))

typedef struct {
    const uint8_t *data;
    uint32_t size; /* 0: there is no such value */
} cl_value;

typedef struct {
    const char *name;
    cl_value value;
} cl_field;

typedef struct {
    cl_value key; /* a text */
    cl_value value;
} cl_entry;

/* ---- memory and bytes ---- */

extern uint8_t __heap_base;

CL_API void *cl_alloc(uint32_t size) {
    static uint32_t next = 0;
    if (next == 0) next = ((uint32_t)&__heap_base + 7) & ~7u;
    uint64_t end = ((uint64_t)next + size + 7) & ~(uint64_t)7;
    uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (end > have) {
        uint64_t pages = (end - have + 0xffff) >> 16;
        if (end > UINT32_MAX || __builtin_wasm_memory_grow(0, (uint32_t)pages) == (uint32_t)-1) __builtin_trap();
    }
    void *start = (void *)next;
    next = (uint32_t)end;
    return start;
}

CL_API uint32_t cl_length(const char *text) {
    uint32_t size = 0;
    while (text[size]) size++;
    return size;
}

CL_API uint8_t *cl_copy(uint8_t *to, const void *from, uint32_t size) {
    const uint8_t *bytes = from;
    for (uint32_t i = 0; i < size; i++) to[i] = bytes[i];
    return to + size;
}

/* As map keys are ordered: shorter first, then by bytes. */
CL_API int cl_order(const void *a, uint32_t a_size, const void *b, uint32_t b_size) {
    if (a_size != b_size) return a_size < b_size ? -1 : 1;
    const uint8_t *left = a, *right = b;
    for (uint32_t i = 0; i < a_size; i++)
        if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
    return 0;
}

/* ---- reading ---- */

typedef struct {
    uint8_t major;
    uint64_t argument;
    const uint8_t *rest; /* what stands behind the head */
} cl_head;

enum { CL_UINT, CL_NEGATIVE, CL_BYTES, CL_TEXT, CL_LIST, CL_MAP, CL_TAG, CL_SIMPLE };
enum { CL_FALSE_BYTE = 0xf4, CL_TRUE_BYTE = 0xf5, CL_NULL_BYTE = 0xf6, CL_FLOAT_BYTE = 0xfb };

CL_API cl_head cl_read_head(const uint8_t *at, const uint8_t *end) {
    if (at >= end) __builtin_trap();
    cl_head head = {*at >> 5, *at & 31, at + 1};
    if (head.argument < 24) return head;
    if (head.argument > 27) __builtin_trap();
    uint32_t width = 1u << (head.argument - 24);
    if ((uint32_t)(end - head.rest) < width) __builtin_trap();
    head.argument = 0;
    while (width--) head.argument = head.argument << 8 | *head.rest++;
    return head;
}

/* The end of the value that begins here. */
CL_API const uint8_t *cl_skip(const uint8_t *at, const uint8_t *end) {
    uint64_t open = 1;
    while (open--) {
        cl_head head = cl_read_head(at, end);
        at = head.rest;
        if (head.major == CL_BYTES || head.major == CL_TEXT) {
            if (head.argument > (uint64_t)(end - at)) __builtin_trap();
            at += head.argument;
        } else if (head.major >= CL_LIST && head.major <= CL_TAG) {
            if (head.argument > (uint64_t)(end - at) && head.major != CL_TAG) __builtin_trap();
            open += head.major == CL_TAG ? 1 : head.argument << (head.major == CL_MAP);
        }
    }
    return at;
}

CL_API cl_head cl_need(cl_value value, uint8_t major) {
    cl_head head = cl_read_head(value.data, value.data + value.size);
    if (head.major != major) __builtin_trap();
    return head;
}

CL_API int cl_is(cl_value value, uint8_t first) { return value.size && value.data[0] == first; }
CL_API int cl_is_there(cl_value value) { return value.size != 0; }
CL_API int cl_is_null(cl_value value) { return cl_is(value, CL_NULL_BYTE); }

CL_API int cl_to_bool(cl_value value) {
    if (!cl_is(value, CL_TRUE_BYTE) && !cl_is(value, CL_FALSE_BYTE)) __builtin_trap();
    return value.data[0] == CL_TRUE_BYTE;
}

CL_API int64_t cl_to_int(cl_value value) {
    cl_head head = cl_read_head(value.data, value.data + value.size);
    if (head.major > CL_NEGATIVE || head.argument > INT64_MAX) __builtin_trap();
    return head.major == CL_UINT ? (int64_t)head.argument : -1 - (int64_t)head.argument;
}

CL_API uint64_t cl_to_uint(cl_value value) { return cl_need(value, CL_UINT).argument; }

CL_API double cl_to_float(cl_value value) {
    if (!cl_is(value, CL_FLOAT_BYTE)) __builtin_trap();
    union { uint64_t bits; double number; } both = {cl_need(value, CL_SIMPLE).argument};
    return both.number;
}

/* The bytes of a text or byte string, without its head; a text has no zero at its end. */
CL_API cl_value cl_string(cl_value value, uint8_t major) {
    cl_head head = cl_need(value, major);
    if (head.argument > (uint64_t)(value.data + value.size - head.rest)) __builtin_trap();
    return (cl_value){head.rest, (uint32_t)head.argument};
}
CL_API cl_value cl_to_text(cl_value value) { return cl_string(value, CL_TEXT); }
CL_API cl_value cl_to_bytes(cl_value value) { return cl_string(value, CL_BYTES); }

CL_API int cl_text_is(cl_value value, const char *text) {
    cl_value found = cl_to_text(value);
    return cl_order(found.data, found.size, text, cl_length(text)) == 0;
}

/* The head of a list or map; what it says to hold is there. */
CL_API cl_head cl_need_items(cl_value value, uint8_t major) {
    cl_head head = cl_need(value, major);
    if (head.argument > (uint64_t)(value.data + value.size - head.rest)) __builtin_trap();
    return head;
}
CL_API uint32_t cl_count(cl_value list) { return (uint32_t)cl_need_items(list, CL_LIST).argument; }
CL_API uint32_t cl_size(cl_value map) { return (uint32_t)cl_need_items(map, CL_MAP).argument; }

CL_API void *cl_array(uint32_t count, uint32_t size) {
    if (count > UINT32_MAX / 2 / size) __builtin_trap();
    return cl_alloc(count * size);
}

/* The items of a list; of a map, its keys and values in turn. */
CL_API const cl_value *cl_parts(cl_value value) {
    int is_map = value.size && value.data[0] >> 5 == CL_MAP;
    cl_head head = cl_need_items(value, is_map ? CL_MAP : CL_LIST);
    uint32_t count = (uint32_t)head.argument << is_map;
    const uint8_t *end = value.data + value.size, *at = head.rest;
    cl_value *parts = cl_array(count, sizeof *parts);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *next = cl_skip(at, end);
        parts[i] = (cl_value){at, (uint32_t)(next - at)};
        at = next;
    }
    return parts;
}

/* The field of a record, of size 0 if it has none. */
CL_API cl_value cl_find(cl_value map, const char *name) {
    cl_head head = cl_need(map, CL_MAP);
    const uint8_t *end = map.data + map.size, *at = head.rest;
    for (uint64_t i = 0; i < head.argument; i++) {
        const uint8_t *value = cl_skip(at, end), *next = cl_skip(value, end);
        if (cl_text_is((cl_value){at, (uint32_t)(value - at)}, name)) {
            return (cl_value){value, (uint32_t)(next - value)};
        }
        at = next;
    }
    return (cl_value){0, 0};
}

CL_API cl_value cl_get(cl_value map, const char *name) {
    cl_value found = cl_find(map, name);
    if (!found.size) __builtin_trap();
    return found;
}

/* ---- writing ---- */

CL_API uint8_t *cl_put_head(uint8_t *at, uint8_t major, uint64_t argument) {
    if (argument < 24) {
        *at++ = (uint8_t)(major << 5 | argument);
        return at;
    }
    int power = argument > UINT32_MAX ? 3 : argument > UINT16_MAX ? 2 : argument > UINT8_MAX ? 1 : 0;
    *at++ = (uint8_t)(major << 5 | (24 + power));
    for (int shift = (8 << power) - 8; shift >= 0; shift -= 8) *at++ = (uint8_t)(argument >> shift);
    return at;
}

CL_API cl_value cl_headed(uint8_t major, uint64_t argument, const void *data, uint32_t size) {
    if (size > UINT32_MAX - 9) __builtin_trap();
    uint8_t *start = cl_alloc(size + 9);
    uint8_t *end = cl_copy(cl_put_head(start, major, argument), data, size);
    return (cl_value){start, (uint32_t)(end - start)};
}

CL_API cl_value cl_simple(uint8_t byte) { return cl_headed(CL_SIMPLE, byte & 31, 0, 0); }
CL_API cl_value cl_null(void) { return cl_simple(CL_NULL_BYTE); }
CL_API cl_value cl_bool(int given) { return cl_simple(given ? CL_TRUE_BYTE : CL_FALSE_BYTE); }
CL_API cl_value cl_uint(uint64_t given) { return cl_headed(CL_UINT, given, 0, 0); }
CL_API cl_value cl_int(int64_t given) {
    return given < 0 ? cl_headed(CL_NEGATIVE, (uint64_t)(-1 - given), 0, 0) : cl_uint((uint64_t)given);
}
CL_API cl_value cl_bytes(const void *data, uint32_t size) { return cl_headed(CL_BYTES, size, data, size); }
CL_API cl_value cl_text_of(const void *data, uint32_t size) { return cl_headed(CL_TEXT, size, data, size); }
CL_API cl_value cl_text(const char *given) { return cl_text_of(given, cl_length(given)); }

/* Traps for what no value can be: NaN and the infinities. -0.0 becomes 0.0. */
CL_API cl_value cl_float(double given) {
    if (given != given || given - given != 0.0) __builtin_trap();
    union { double number; uint64_t bits; } both = {given == 0.0 ? 0.0 : given};
    uint8_t *start = cl_alloc(9), *at = start;
    *at++ = CL_FLOAT_BYTE;
    for (int shift = 56; shift >= 0; shift -= 8) *at++ = (uint8_t)(both.bits >> shift);
    return (cl_value){start, 9};
}

CL_API cl_value cl_list(uint32_t count, const cl_value *items) {
    uint64_t size = 9;
    for (uint32_t i = 0; i < count; i++) size += items[i].size;
    if (size > UINT32_MAX) __builtin_trap();
    uint8_t *start = cl_alloc((uint32_t)size), *at = cl_put_head(start, CL_LIST, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!items[i].size) __builtin_trap();
        at = cl_copy(at, items[i].data, items[i].size);
    }
    return (cl_value){start, (uint32_t)(at - start)};
}

/* A map whose keys are texts; entries without a value are left out, the same key twice traps. */
CL_API cl_value cl_map(uint32_t count, const cl_entry *entries) {
    uint64_t size = 9;
    uint32_t used = 0;
    const cl_entry **order = cl_array(count, sizeof *order);
    for (uint32_t i = 0; i < count; i++) {
        cl_value key = entries[i].key;
        if (!entries[i].value.size) continue;
        cl_need(key, CL_TEXT);
        size += (uint64_t)key.size + entries[i].value.size;
        uint32_t place = used++;
        for (; place; place--) {
            cl_value before = order[place - 1]->key;
            int found = cl_order(before.data, before.size, key.data, key.size);
            if (found == 0) __builtin_trap();
            if (found < 0) break;
            order[place] = order[place - 1];
        }
        order[place] = &entries[i];
    }
    if (size > UINT32_MAX) __builtin_trap();
    uint8_t *start = cl_alloc((uint32_t)size), *at = cl_put_head(start, CL_MAP, used);
    for (uint32_t i = 0; i < used; i++) {
        at = cl_copy(at, order[i]->key.data, order[i]->key.size);
        at = cl_copy(at, order[i]->value.data, order[i]->value.size);
    }
    return (cl_value){start, (uint32_t)(at - start)};
}

/* A record: a map with names for keys, in any order. */
CL_API cl_value cl_record(uint32_t count, const cl_field *fields) {
    cl_entry *entries = cl_array(count, sizeof *entries);
    for (uint32_t i = 0; i < count; i++) entries[i] = (cl_entry){cl_text(fields[i].name), fields[i].value};
    return cl_map(count, entries);
}

/* ---- steps ---- */

typedef struct {
    cl_value state;   /* null: the cell does not exist yet */
    cl_value schema;  /* a text: the name of the event's schema, such as shop/Added@1 */
    cl_value event;   /* the event's value */
    cl_value key;     /* the bytes of the cell's key; not there for a module without keys */
    cl_value context; /* not there unless the module declares it */
} cl_input;

enum { CL_EVENTS_MAX = 10000, CL_EFFECTS_MAX = 1000, CL_CANCELS_MAX = 1000 };

typedef struct {
    cl_value *items;
    uint32_t count, room;
} cl_items;

typedef struct {
    cl_value state, reply, note, refuse, changes;
    cl_items events, effects, cancels;
} cl_output;

typedef struct {
    const char *kind;
    cl_value params;
    const char *cap_slot;        /* or 0 */
    const char *idempotency_key; /* or 0 */
    cl_value limits;             /* a record of integers, or not there */
} cl_effect;

/* The new state; null deletes the cell. */
CL_API cl_output cl_state(cl_value state) {
    return (cl_output){.state = state};
}

/* The event is refused: nothing changes, and whoever sent it is told. `code` may be 0. */
CL_API cl_output cl_refuse(const char *reason, const char *code) {
    cl_value given = code ? cl_text(code) : (cl_value){0, 0};
    cl_value refuse = cl_record(2, (cl_field[]){{"reason", cl_text(reason)}, {"code", given}});
    return (cl_output){.state = cl_null(), .refuse = refuse};
}

CL_API void cl_add(cl_items *to, cl_value item, uint32_t limit) {
    if (to->count == limit) __builtin_trap();
    if (to->count == to->room) {
        uint32_t room = to->room ? 2 * to->room : 8;
        cl_value *items = cl_array(room, sizeof *items);
        for (uint32_t i = 0; i < to->count; i++) items[i] = to->items[i];
        to->items = items;
        to->room = room;
    }
    to->items[to->count++] = item;
}

CL_API cl_value cl_wrapped(cl_value value) {
    return value.size ? cl_bytes(value.data, value.size) : value;
}

CL_API void cl_reply(cl_output *out, cl_value reply) { out->reply = reply; }
CL_API void cl_note(cl_output *out, cl_value note) { out->note = note; }

CL_API void cl_emit(cl_output *out, const char *schema, cl_value value) {
    cl_field fields[] = {{"schema", cl_text(schema)}, {"value", cl_wrapped(value)}};
    cl_add(&out->events, cl_record(2, fields), CL_EVENTS_MAX);
}

/* An event whose route cannot take the key from its value. */
CL_API void cl_emit_to(cl_output *out, const char *schema, cl_value value, cl_value key) {
    cl_field fields[] = {{"schema", cl_text(schema)}, {"value", cl_wrapped(value)}, {"key", cl_wrapped(key)}};
    cl_add(&out->events, cl_record(3, fields), CL_EVENTS_MAX);
}

CL_API void cl_ask(cl_output *out, cl_effect effect) {
    cl_value none = {0, 0};
    cl_field fields[] = {
        {"kind", cl_text(effect.kind)},
        {"params", cl_wrapped(effect.params)},
        {"cap_slot", effect.cap_slot ? cl_text(effect.cap_slot) : none},
        {"idempotency_key", effect.idempotency_key ? cl_text(effect.idempotency_key) : none},
        {"limits", effect.limits},
    };
    cl_add(&out->effects, cl_record(5, fields), CL_EFFECTS_MAX);
}

/* End a timer or an effect by its idempotency key. */
CL_API void cl_cancel(cl_output *out, const char *idempotency_key) {
    cl_add(&out->cancels, cl_text(idempotency_key), CL_CANCELS_MAX);
}

CL_API cl_value cl_inside(cl_value map, const char *name) {
    cl_value found = cl_find(map, name);
    return !found.size || cl_is_null(found) ? found : cl_to_bytes(found);
}

CL_API cl_input cl_read_input(const uint8_t *data, uint32_t size) {
    cl_value whole = {data, size};
    cl_value event = cl_get(whole, "event");
    return (cl_input){
        cl_inside(whole, "state"), cl_get(event, "schema"), cl_inside(event, "value"),
        cl_inside(event, "key"), cl_inside(whole, "ctx"),
    };
}

CL_API uint64_t cl_packed(cl_value value) { return (uint64_t)(uint32_t)value.data << 32 | value.size; }

CL_API cl_value cl_items_list(cl_items items) {
    return items.count ? cl_list(items.count, items.items) : (cl_value){0, 0};
}

CL_API uint64_t cl_answer(cl_output out) {
    if (!out.state.size) __builtin_trap();
    cl_field fields[] = {
        {"state", cl_is_null(out.state) ? out.state : cl_wrapped(out.state)},
        {"domain_events", cl_items_list(out.events)},
        {"effects", cl_items_list(out.effects)},
        {"reply", cl_wrapped(out.reply)},
        {"ann", cl_wrapped(out.note)},
        {"cancel", cl_items_list(out.cancels)},
        {"refuse", out.refuse},
        {"changes", out.changes},
    };
    return cl_packed(cl_record(8, fields));
}

/* ---- one cell with the map of all keys ---- */

/* Whether this item is the key with these bytes: text as it is, all others as canonical bytes. */
CL_API int cl_is_key(cl_value item, cl_value key) {
    int is_text = item.size && item.data[0] >> 5 == CL_TEXT;
    cl_value bytes = is_text ? cl_to_text(item) : item;
    return cl_order(bytes.data, bytes.size, key.data, key.size) == 0;
}

/* The entry of a whole map, null if it has none. */
CL_API cl_value cl_entry_of(cl_value map, cl_value key) {
    if (cl_is_null(map)) return map;
    int is_map = map.data[0] >> 5 == CL_MAP;
    uint32_t count = is_map ? cl_size(map) : cl_count(map);
    const cl_value *parts = cl_parts(map);
    for (uint32_t i = 0; i < count; i++) {
        const cl_value *pair = is_map ? &parts[2 * i] : cl_parts(parts[i]);
        if (cl_is_key(pair[0], key)) return pair[1];
    }
    return cl_null();
}

/* One step of a function that knows the state of one key, in a cell or as an entry of a whole map. */
CL_API uint64_t cl_step_entry(cl_output (*function)(const cl_input *), cl_input in) {
    if (!in.context.size || cl_to_bool(cl_get(in.context, "cell_mode"))) return cl_answer(function(&in));
    if (!in.key.size) __builtin_trap();
    in.state = cl_entry_of(in.state, in.key);
    cl_output out = function(&in);
    if (out.refuse.size) return cl_answer(out);
    cl_field change[] = {
        {"key", cl_wrapped(in.key)},
        {"state", cl_is_null(out.state) ? out.state : cl_wrapped(out.state)},
    };
    cl_value changed = cl_record(2, change);
    out.changes = cl_list(1, &changed);
    out.state = cl_null();
    return cl_answer(out);
}

#define CELLULE_EXPORT(name) __attribute__((export_name(#name)))
#define CELLULE_ALLOC \
    CELLULE_EXPORT(alloc) uint32_t cellule_alloc(uint32_t size) { return (uint32_t)cl_alloc(size); }

/* The exports of a module whose step is cl_output function(const cl_input *). */
#define CELLULE_STEP(function)                                                             \
    CELLULE_ALLOC                                                                          \
    CELLULE_EXPORT(step) uint64_t cellule_step(const uint8_t *data, uint32_t size) {       \
        cl_input input = cl_read_input(data, size);                                        \
        return cl_answer(function(&input));                                                \
    }

/* The same for a module that may be one cell with the map of all keys (`cell_mode: false`): the function knows
 * one key's state, whichever it is. The module declares `context`; its keys are neither bytes nor enums. */
#define CELLULE_ENTRIES(function)                                                          \
    CELLULE_ALLOC                                                                          \
    CELLULE_EXPORT(step) uint64_t cellule_step(const uint8_t *data, uint32_t size) {       \
        return cl_step_entry(function, cl_read_input(data, size));                         \
    }

/* The exports of an upcaster, cl_value function(cl_value). */
#define CELLULE_UPCAST(function)                                                           \
    CELLULE_ALLOC                                                                          \
    CELLULE_EXPORT(upcast) uint64_t cellule_upcast(const uint8_t *data, uint32_t size) {   \
        return cl_packed(function((cl_value){data, size}));                                \
    }

#endif
