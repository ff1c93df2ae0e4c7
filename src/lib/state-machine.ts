/** State machines as tables: for each state, the events that may happen in it, and the state that follows each. */
export type Transitions<State extends string, Event extends string> = Readonly<
  Record<State, Readonly<Partial<Record<Event, State>>>>
>;

/** Returns the next state. Throws when the table does not allow the event, which is a bug of the caller. */
export function nextState<State extends string, Event extends string>(
  transitions: Transitions<State, Event>,
  state: State,
  event: Event,
): State {
  const next = transitions[state][event];
  if (next === undefined) throw new Error(`"${event}" cannot happen in the state "${state}"`);
  return next;
}
