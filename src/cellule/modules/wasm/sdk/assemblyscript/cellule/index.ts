/* Cellule modules in AssemblyScript. All of the SDK is in this file.
 *
 *     import { Output, Value, answer, read } from "cellule";
 *     export { alloc } from "cellule";
 *
 *     export function step(pointer: usize, length: usize): i64 {
 *       const input = read(pointer, length);
 *       const n: i64 = input.state.isNull ? 0 : input.state.get("n").toInt();
 *       return answer(Output.state(Value.record().set("n", Value.int(n + 1)).value()));
 *     }
 *
 * A value is its canonical bytes, so what was read can be written as it is. Records sort their fields, and
 * integers, lengths and floats take the only form there is: equal values have equal bytes in every language.
 * A value of another type than asked for, a missing field and memory that is used up trap: the step fails, the
 * cell keeps its state. Nothing is freed: every step has an instance, and so a memory, of its own.
 */

const UINT: u8 = 0, NEGATIVE: u8 = 1, BYTES: u8 = 2, TEXT: u8 = 3, LIST: u8 = 4, MAP: u8 = 5, TAG: u8 = 6;
const FALSE_BYTE: u8 = 0xf4, TRUE_BYTE: u8 = 0xf5, NULL_BYTE: u8 = 0xf6, FLOAT_BYTE: u8 = 0xfb;
const HEAD_MAX: usize = 9;
const EVENTS_MAX: i32 = 10000, EFFECTS_MAX: i32 = 1000, CANCELS_MAX: i32 = 1000;

/** Room for the input; the export that the host calls first. */
export function alloc(size: i32): i32 {
  return heap.alloc(<usize>max(size, 1)) as i32;
}

/** Reads heads of values, one after the other; never beyond the end. */
class Reader {
  major: u8 = 0;
  argument: u64 = 0;

  constructor(public at: usize, public end: usize) {}

  get left(): u64 {
    return <u64>(this.end - this.at);
  }

  head(): void {
    if (this.at >= this.end) unreachable();
    const first = load<u8>(this.at++);
    this.major = first >> 5;
    this.argument = first & 31;
    if (this.argument < 24) return;
    if (this.argument > 27) unreachable();
    let width = <u32>1 << <u32>(this.argument - 24);
    if (this.left < width) unreachable();
    this.argument = 0;
    while (width--) this.argument = (this.argument << 8) | load<u8>(this.at++);
  }

  /** Go on behind the value that begins here. */
  skip(): void {
    let open: u64 = 1;
    while (open--) {
      this.head();
      if (this.major == BYTES || this.major == TEXT) {
        if (this.argument > this.left) unreachable();
        this.at += <usize>this.argument;
      } else if (this.major == LIST || this.major == MAP) {
        if (this.argument > this.left) unreachable();
        open += this.argument << <u64>(this.major == MAP);
      } else if (this.major == TAG) {
        open++;
      }
    }
  }
}

/** A value as its canonical bytes; of size 0 where there is none. */
export class Value {
  constructor(public data: usize, public size: usize) {}

  // ---- reading ----

  get isThere(): bool {
    return this.size != 0;
  }

  get isNull(): bool {
    return this.begins(NULL_BYTE);
  }

  toBool(): bool {
    if (!this.begins(TRUE_BYTE) && !this.begins(FALSE_BYTE)) unreachable();
    return this.begins(TRUE_BYTE);
  }

  toInt(): i64 {
    const reader = this.reader();
    reader.head();
    if (reader.major > NEGATIVE || reader.argument > <u64>i64.MAX_VALUE) unreachable();
    return reader.major == UINT ? <i64>reader.argument : -1 - <i64>reader.argument;
  }

  toUint(): u64 {
    return this.need(UINT).argument;
  }

  toFloat(): f64 {
    if (!this.begins(FLOAT_BYTE)) unreachable();
    const reader = this.reader();
    reader.head();
    return reinterpret<f64>(reader.argument);
  }

  toText(): string {
    const found = this.inside(TEXT);
    return String.UTF8.decodeUnsafe(found.data, found.size);
  }

  /** The bytes of a byte string, without its head. */
  toBytes(): Value {
    return this.inside(BYTES);
  }

  /** The bytes of a text without its head; any other value as it is. */
  bare(): Value {
    return this.size != 0 && load<u8>(this.data) >> 5 == TEXT ? this.inside(TEXT) : this;
  }

  /** The items of a list; of a map, its keys and values in turn. */
  parts(): Value[] {
    const reader = this.need(this.isMap ? MAP : LIST);
    if (reader.argument > reader.left) unreachable();
    const parts = new Array<Value>(<i32>reader.argument << <i32>this.isMap);
    for (let i = 0; i < parts.length; i++) {
      const start = reader.at;
      reader.skip();
      parts[i] = new Value(start, reader.at - start);
    }
    return parts;
  }

  /** The field of a record; one that is not there is `!isThere`. */
  find(name: string): Value {
    const reader = this.need(MAP);
    const wanted = Value.text(name);
    for (let left = reader.argument; left; left--) {
      const key = reader.at;
      reader.skip();
      const value = reader.at;
      reader.skip();
      if (order(key, value - key, wanted.data, wanted.size) == 0) return new Value(value, reader.at - value);
    }
    return Value.none();
  }

  get(name: string): Value {
    const found = this.find(name);
    if (!found.isThere) unreachable();
    return found;
  }

  // ---- writing ----

  static none(): Value {
    return new Value(0, 0);
  }

  static null(): Value {
    return headed(7, NULL_BYTE & 31);
  }

  static bool(given: bool): Value {
    return headed(7, (given ? TRUE_BYTE : FALSE_BYTE) & 31);
  }

  static int(given: i64): Value {
    return given < 0 ? headed(NEGATIVE, <u64>(-1 - given)) : headed(UINT, <u64>given);
  }

  static uint(given: u64): Value {
    return headed(UINT, given);
  }

  /** Traps for what no value can be: NaN and the infinities. -0.0 becomes 0.0. */
  static float(given: f64): Value {
    if (!isFinite(given)) unreachable();
    const start = heap.alloc(HEAD_MAX);
    store<u8>(start, FLOAT_BYTE);
    store<u64>(start + 1, bswap(reinterpret<u64>(given == 0.0 ? 0.0 : given)));
    return new Value(start, HEAD_MAX);
  }

  /** Traps for half of a surrogate pair, which no text can hold. */
  static text(given: string): Value {
    const data = String.UTF8.encode(given, false, String.UTF8.ErrorMode.ERROR);
    return headed(TEXT, data.byteLength, changetype<usize>(data), data.byteLength);
  }

  static bytes(data: usize, size: usize): Value {
    return headed(BYTES, size, data, size);
  }

  static list(items: Value[]): Value {
    let size: usize = 0;
    for (let i = 0; i < items.length; i++) {
      if (!items[i].isThere) unreachable();
      size += items[i].size;
    }
    const whole = headed(LIST, items.length, 0, 0, size);
    for (let i = 0; i < items.length; i++) whole.append(items[i]);
    return whole;
  }

  static record(): Fields {
    return new Fields();
  }

  /** The bytes of this value as a byte string; nothing for nothing. */
  wrapped(): Value {
    return this.isThere ? Value.bytes(this.data, this.size) : this;
  }

  append(other: Value): void {
    memory.copy(this.data + this.size, other.data, other.size);
    this.size += other.size;
  }

  packed(): i64 {
    return <i64>((<u64>this.data << 32) | <u64>this.size);
  }

  private begins(byte: u8): bool {
    return this.size != 0 && load<u8>(this.data) == byte;
  }

  private reader(): Reader {
    return new Reader(this.data, this.data + this.size);
  }

  private need(major: u8): Reader {
    const reader = this.reader();
    reader.head();
    if (reader.major != major) unreachable();
    return reader;
  }

  private get isMap(): bool {
    return this.size != 0 && load<u8>(this.data) >> 5 == MAP;
  }

  private inside(major: u8): Value {
    const reader = this.need(major);
    if (reader.argument > reader.left) unreachable();
    return new Value(reader.at, <usize>reader.argument);
  }
}

/** The fields of a record or map, in any order; `value` sorts them. */
export class Fields {
  private names: Value[] = [];
  private values: Value[] = [];

  /** Add a field; a value that is not there leaves it out, the same name twice traps. */
  set(name: string, value: Value): Fields {
    return this.setKey(Value.text(name), value);
  }

  /** The same with a text that is a value already. */
  setKey(text: Value, value: Value): Fields {
    if (!value.isThere) return this;
    text.toText();
    let place = this.names.length;
    this.names.push(text);
    this.values.push(value);
    for (; place; place--) {
      const before = this.names[place - 1];
      const found = order(before.data, before.size, text.data, text.size);
      if (found == 0) unreachable();
      if (found < 0) break;
      this.names[place] = before;
      this.values[place] = this.values[place - 1];
    }
    this.names[place] = text;
    this.values[place] = value;
    return this;
  }

  value(): Value {
    let size: usize = 0;
    for (let i = 0; i < this.names.length; i++) size += this.names[i].size + this.values[i].size;
    const whole = headed(MAP, this.names.length, 0, 0, size);
    for (let i = 0; i < this.names.length; i++) {
      whole.append(this.names[i]);
      whole.append(this.values[i]);
    }
    return whole;
  }
}

/** Shorter first, then by bytes: also for texts with their heads, whose order is that of map keys. */
function order(a: usize, aSize: usize, b: usize, bSize: usize): i32 {
  if (aSize != bSize) return aSize < bSize ? -1 : 1;
  return memory.compare(a, b, aSize);
}

function headed(major: u8, argument: u64, data: usize = 0, size: usize = 0, room: usize = size): Value {
  const start = heap.alloc(HEAD_MAX + room);
  const value = new Value(start, 1);
  if (argument < 24) {
    store<u8>(start, (major << 5) | <u8>argument);
  } else {
    const power = argument > <u64>u32.MAX_VALUE ? 3 : argument > <u64>u16.MAX_VALUE ? 2 : argument > <u64>u8.MAX_VALUE ? 1 : 0;
    store<u8>(start, (major << 5) | <u8>(24 + power));
    for (let shift = (8 << power) - 8; shift >= 0; shift -= 8) {
      store<u8>(start + value.size++, <u8>(argument >> <u64>shift));
    }
  }
  if (size) value.append(new Value(data, size));
  return value;
}

/** What a step is given. */
export class Input {
  /** Null: the cell does not exist yet. */
  state: Value;
  /** The name of the event's schema, such as shop/Added@1. */
  schema: string;
  event: Value;
  /** The bytes of the cell's key; not there for a module without keys. */
  key: Value;
  /** Not there unless the module declares it. */
  context: Value;

  constructor(whole: Value) {
    const event = whole.get("event");
    this.state = part(whole, "state");
    this.schema = event.get("schema").toText();
    this.event = part(event, "value");
    this.key = part(event, "key");
    this.context = part(whole, "ctx");
  }
}

function part(map: Value, name: string): Value {
  const found = map.find(name);
  return !found.isThere || found.isNull ? found : found.toBytes();
}

/** What a step answers. */
export class Output {
  private replied: Value = Value.none();
  private noted: Value = Value.none();
  private refused: Value = Value.none();
  private changes: Value = Value.none();
  private events: Value[] = [];
  private effects: Value[] = [];
  private cancels: Value[] = [];

  constructor(private next: Value) {}

  /** The new state; null deletes the cell. */
  static state(next: Value): Output {
    return new Output(next);
  }

  /** The event is refused: nothing changes, and whoever sent it is told. */
  static refuse(reason: string, code: string = ""): Output {
    const output = new Output(Value.null());
    const given = code.length ? Value.text(code) : Value.none();
    output.refused = Value.record().set("reason", Value.text(reason)).set("code", given).value();
    return output;
  }

  reply(value: Value): Output {
    this.replied = value;
    return this;
  }

  note(value: Value): Output {
    this.noted = value;
    return this;
  }

  /** Send an event; `key` only where its route cannot take the key from the value. */
  emit(schema: string, value: Value, key: Value = Value.none()): Output {
    const fields = Value.record().set("schema", Value.text(schema)).set("value", value.wrapped());
    add(this.events, fields.set("key", key.wrapped()).value(), EVENTS_MAX);
    return this;
  }

  /** Ask for an effect. */
  ask(effect: Effect): Output {
    add(this.effects, effect.value(), EFFECTS_MAX);
    return this;
  }

  /** End a timer or an effect by its idempotency key. */
  cancel(idempotencyKey: string): Output {
    add(this.cancels, Value.text(idempotencyKey), CANCELS_MAX);
    return this;
  }

  value(): Value {
    if (!this.next.isThere) unreachable();
    return Value.record()
      .set("state", this.next.isNull ? this.next : this.next.wrapped())
      .set("domain_events", listed(this.events))
      .set("effects", listed(this.effects))
      .set("reply", this.replied.wrapped())
      .set("ann", this.noted.wrapped())
      .set("cancel", listed(this.cancels))
      .set("refuse", this.refused)
      .set("changes", this.changes)
      .value();
  }

  /** The same answer for a whole map: only the entry with this key changes. */
  ofEntry(key: Value): Output {
    if (this.refused.isThere) return this;
    const state = this.next.isNull ? this.next : this.next.wrapped();
    this.changes = Value.list([Value.record().set("key", key.wrapped()).set("state", state).value()]);
    this.next = Value.null();
    return this;
  }
}

/** An effect to ask for; what is empty is left out. */
export class Effect {
  capSlot: string = "";
  idempotencyKey: string = "";
  limits: Value = Value.none();

  constructor(public kind: string, public params: Value) {}

  value(): Value {
    return Value.record()
      .set("kind", Value.text(this.kind))
      .set("params", this.params.wrapped())
      .set("cap_slot", this.capSlot.length ? Value.text(this.capSlot) : Value.none())
      .set("idempotency_key", this.idempotencyKey.length ? Value.text(this.idempotencyKey) : Value.none())
      .set("limits", this.limits)
      .value();
  }
}

function add(to: Value[], item: Value, limit: i32): void {
  if (to.length == limit) unreachable();
  to.push(item);
}

function listed(items: Value[]): Value {
  return items.length ? Value.list(items) : Value.none();
}

/** The entry of a whole map, null if it has none. Text keys are compared as they are, others by their bytes. */
function entryOf(map: Value, key: Value): Value {
  if (map.isNull) return map;
  const isMap = load<u8>(map.data) >> 5 == MAP;
  const parts = map.parts();
  for (let i = 0; i < parts.length; i += isMap ? 2 : 1) {
    const pair = isMap ? [parts[i], parts[i + 1]] : parts[i].parts();
    const bytes = pair[0].bare();
    if (order(bytes.data, bytes.size, key.data, key.size) == 0) return pair[1];
  }
  return Value.null();
}

/**
 * One step of a function that knows the state of one key, in a cell or as an entry of a whole map
 * (`cell_mode: false`). The module declares `context`; its keys are neither bytes nor enums.
 */
export function answerEntry(input: Input, step: (input: Input) => Output): i64 {
  if (!input.context.isThere || input.context.get("cell_mode").toBool()) return answer(step(input));
  if (!input.key.isThere) unreachable();
  input.state = entryOf(input.state, input.key);
  return answer(step(input).ofEntry(input.key));
}

/** The input of a step. */
export function read(pointer: usize, length: usize): Input {
  return new Input(new Value(pointer, length));
}

/** The output of a step, as the export `step` returns it. */
export function answer(output: Output): i64 {
  return output.value().packed();
}
