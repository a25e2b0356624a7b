// The counter in AssemblyScript.
import { Input, Output, Value, answer, read } from "cellule";
export { alloc } from "cellule";

function count(input: Input): Output {
  if (input.schema == "counters/Cleared@1") return Output.state(Value.null());
  const by = input.event.get("by").toInt();
  let events: i64 = 0;
  let total: i64 = 0;
  if (!input.state.isNull) {
    events = input.state.get("events").toInt();
    total = input.state.get("total").toInt();
  }
  if (total + by < 0) return Output.refuse("the total would be below zero", "counters.below_zero");
  events += 1;
  const state = Value.record()
    .set("total", Value.int(total + by))
    .set("events", Value.int(events))
    .set("mean", Value.float(<f64>(total + by) / <f64>events))
    .set("last", input.event.get("note"));
  const output = Output.state(state.value()).reply(Value.int(total + by));
  if (total < 100 && total + by >= 100) {
    const reached = Value.record().set("id", input.event.get("id")).set("total", Value.int(total + by));
    output.emit("counters/Reached@1", reached.value());
  }
  return output;
}

export function step(pointer: usize, length: usize): i64 {
  return answer(count(read(pointer, length)));
}
