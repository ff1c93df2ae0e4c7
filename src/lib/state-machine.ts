/** State machines as tables: for each state, the events that may happen in it, and the state that follows each. */
export type Transitions<State extends string, Event extends string> = Readonly<
  Record<State, Readonly<Partial<Record<Event, State>>>>
>;

/** The state that follows. Throws for an event that the table does not list, which is a bug of the caller. */
export function nextState<State extends string, Event extends string>(
  transitions: Transitions<State, Event>,
  state: State,
  event: Event,
): State {
  const next = transitions[state][event];
  if (next === undefined) throw new Error(`"${event}" cannot happen in the state "${state}"`);
  return next;
}
