// A counter: adds what each event brings. A sum below zero is refused.
import { Input, Output, Value, answer, read } from "cellule";
export { alloc } from "cellule";

function count(input: Input): Output {
  const n: i64 = input.state.isNull ? 0 : input.state.get("n").toInt();
  const sum = n + input.event.get("n").toInt();
  if (sum < 0) return Output.refuse("the counter would be below zero", "counter.below_zero");
  return Output.state(Value.record().set("n", Value.int(sum)).value()).reply(Value.int(sum));
}

export function step(pointer: usize, length: usize): i64 {
  return answer(count(read(pointer, length)));
}
