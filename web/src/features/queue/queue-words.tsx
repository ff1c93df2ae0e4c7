/** Shows states, limits and settings of the queue in words. */
import { Check, CirclePause, Gauge, Hand, type LucideIcon, Timer } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Queue, QueueProvider } from '../../../../sdk/src/api.ts';
import { count, recipients } from '../../lib/numbers.ts';
import { providerName } from '../../lib/providers.ts';
import { Chip } from '../../ui/chip.tsx';
import { Figure } from '../../ui/figure.tsx';
import { NextTime, Time } from '../../ui/time.tsx';
import type { Tone } from '../../ui/tone.ts';

export type ProviderRow = Queue['providers'][number];
type Setting = QueueProvider['settings'][number];

type State = NonNullable<ProviderRow['state']> | 'held';

const LOOKS: Readonly<Record<State, readonly [Tone, LucideIcon]>> = {
  open: ['good', Check],
  full: ['open', Gauge],
  slowed: ['wait', Timer],
  suspended: ['bad', CirclePause],
  held: ['quiet', Hand],
};

/** The verdict on a provider in each state. */
export const VERDICTS: Readonly<Record<State, { tone: Tone; icon: LucideIcon; title: string }>> = {
  open: { tone: 'open', icon: Check, title: 'Open: no limit holds mail back' },
  full: { tone: 'open', icon: Gauge, title: 'Full: mail leaves at the permitted pace' },
  slowed: { tone: 'wait', icon: Timer, title: 'Slowed: the provider asked for less mail' },
  suspended: { tone: 'bad', icon: CirclePause, title: 'Suspended: nothing is sent for now' },
  held: { tone: 'quiet', icon: Hand, title: 'On hold: the mail waits for a release' },
};

/** The meanings of the states, and who can change them. */
export const STATE_MEANINGS: readonly (readonly [State, string])[] = [
  ['open', 'Mail leaves as it arrives.'],
  ['full', 'All permitted connections or messages are in use. Mail leaves at that pace.'],
  ['slowed', 'The provider asked for less mail. The pace grows again automatically.'],
  ['suspended', 'Attempts failed in a row. Nothing is sent until the suspension ends.'],
  ['held', 'A member put the mail on hold. It waits for a release.'],
];

export function stateOf(row: Pick<ProviderRow, 'state' | 'held' | 'waiting'>): State {
  const { state, held, waiting } = row;
  return waiting > 0 && held >= waiting ? 'held' : (state ?? 'open');
}

export function StateChip({ state }: { state: State }): ReactNode {
  const [tone, icon] = LOOKS[state];
  return (
    <Chip tone={tone} icon={icon}>
      {state === 'held' ? 'on hold' : state}
    </Chip>
  );
}

export function StateMark({ row }: { row: ProviderRow }): ReactNode {
  const state = stateOf(row);
  const isPartlyHeld = state === 'open' && row.held > 0;
  if (!isPartlyHeld) return <StateChip state={state} />;
  return (
    <Chip tone="quiet" icon={Hand}>
      open, {row.held.toLocaleString()} on hold
    </Chip>
  );
}

export function MaybeTime({ at }: { at: string | null }): ReactNode {
  return at === null ? '–' : <Time at={at} />;
}

function MaybeNext({ at }: { at: string | null }): ReactNode {
  return at === null ? '–' : <NextTime at={at} />;
}

/** The figure that says when the next attempt is due. */
export function NextDue({ at }: { at: string | null }): ReactNode {
  const next = (
    <span className="inline-block first-letter:uppercase">
      <MaybeNext at={at} />
    </span>
  );
  return <Figure size="small" label="Next due" value={next} />;
}

/** The limit in words, with the setting that it follows from. */
export function LimitText({ row }: { row: ProviderRow }): ReactNode {
  if (row.limit === null) return null;
  const { name, message, setting } = row.limit;
  if (name === 'retry' && row.next_due_at !== null) {
    return (
      <>
        All recipients wait for their next attempt: <NextTime at={row.next_due_at} />.
      </>
    );
  }
  // A host is written as it is; "outlook" is the key of a name.
  const isNamed = providerName(row.provider) !== row.provider;
  return (
    <>
      {isNamed ? message.replaceAll(row.provider, providerName(row.provider)) : message}
      {setting && isOwn(setting) && (
        <span className="block text-xs text-muted">Set by {sourceOf(setting)}.</span>
      )}
    </>
  );
}

const NAMES: Readonly<Record<string, string>> = {
  connections: 'Concurrent connections',
  messages_per_connection: 'Messages per connection',
  idle_s: 'Idle connections are closed after',
  new_connections_per_minute: 'New connections per minute',
  messages_per_minute: 'Messages per minute',
  'suspension.after_failures': 'Failures before a suspension',
  'suspension.first_s': 'First suspension',
  'suspension.longest_s': 'Longest suspension',
  'recovery.hold_down_s': 'Wait before growth, after the provider asked for less',
  'recovery.step_s': 'One more connection is allowed after',
  'recovery.try_again_after_s': 'The former limit is tried again after',
  'uplink.no_answer_s': 'Our network counts as down without a reply for',
  'uplink.retry_s': 'Wait between retries while our network is down',
};

export function nameOf({ name }: Setting): string {
  return NAMES[name] ?? name;
}

const MINUTE_S = 60;

/** Durations with their unit, because the names of others have none. */
export function valueOf({ name, value }: Setting): string {
  if (value === null) return 'No limit';
  if (!name.endsWith('_s')) return value.toLocaleString();
  const isMinutes = value > 0 && value % MINUTE_S === 0;
  return isMinutes ? `${(value / MINUTE_S).toLocaleString()} min` : `${value.toLocaleString()} s`;
}

/** Returns whether the installation sets it, and not Letterhaus. */
export function isOwn({ source }: Setting): boolean {
  return source === 'file' || source === 'file_provider';
}

export function sourceOf({ source, path }: Setting): string {
  switch (source) {
    case 'built_in':
      return 'the default';
    case 'built_in_provider':
      return 'the default for this provider';
    case 'file':
    case 'file_provider':
      return `LETTERHAUS_SHAPING, ${path}`;
  }
}

export function QueueSummary({ queue }: { queue: Queue }): ReactNode {
  const { waiting, due, held, is_estimate: isEstimate, oldest_due_at: oldest } = queue;
  if (waiting === 0) return 'The queue is empty.';
  return (
    <>
      {isEstimate ? `${count(waiting, true)} recipients` : recipients(waiting)} queued,{' '}
      {count(due, isEstimate)} due
      {oldest && (
        <>
          {' '}
          (oldest: <MaybeTime at={oldest} />)
        </>
      )}
      {held > 0 && `, ${count(held, isEstimate)}\u00a0on\u00a0hold`}.
    </>
  );
}
