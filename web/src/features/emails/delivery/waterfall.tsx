/** The attempts at a recipient as bars on one time scale, and the phases of one of them. The figures stand beside. */
import type { ReactNode } from 'react';
import { absoluteTime, inWords } from '../../../lib/time.ts';
import { Time } from '../../../ui/time.tsx';
import { type Attempt, type Bar, barsOf, type PhaseName } from './attempts.ts';

const NAMES: Readonly<Record<PhaseName, string>> = {
  queue: 'Queue',
  dns: 'DNS',
  wait: 'Permit',
  connect: 'Connect',
  tls: 'TLS',
  dialogue: 'Dialogue',
};
const MEANINGS: Readonly<Record<PhaseName, string>> = {
  queue: 'Until the first attempt began',
  dns: 'Look-up of mail servers and TLS rules, while the message is signed',
  wait: 'Until a connection was permitted or free',
  connect: 'TCP connection',
  tls: 'TLS handshake',
  dialogue: 'Commands, replies and the message',
};
/** Neutral before the attempt, then deeper with each step towards the message. */
const FILLS: Readonly<Record<PhaseName, string>> = {
  queue: 'bg-quiet-fill/45',
  dns: 'bg-accent/30',
  wait: 'bg-quiet-fill/70',
  connect: 'bg-accent/50',
  tls: 'bg-accent/70',
  dialogue: 'bg-accent',
};

const ROW =
  'grid w-full grid-cols-[6.5rem_minmax(0,1fr)_auto] items-center gap-x-3 text-sm sm:grid-cols-[10.5rem_minmax(0,1fr)_auto]';
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

export function Waterfall(props: {
  attempts: readonly Attempt[];
  chosen: number;
  onChoose: (number: number) => void;
  nextAttemptAt: string | null;
}): ReactNode {
  const { attempts, chosen, onChoose, nextAttemptAt } = props;
  const bars = barsOf(attempts);
  return (
    <ol aria-label="Attempts" className="-mx-2">
      {attempts.map((attempt, index) => (
        <li key={attempt.number}>
          <button
            type="button"
            aria-pressed={attempt.number === chosen}
            title={describe(attempt)}
            onClick={() => onChoose(attempt.number)}
            className={`${ROW} rounded-md px-2 py-1 text-left hover:bg-hover ${attempt.number === chosen ? 'font-medium' : ''}`}
          >
            <span className="flex flex-wrap justify-between gap-x-3 whitespace-nowrap tabular-nums">
              Attempt {attempt.number}
              <span className="font-normal text-muted">
                {CLOCK.format(Date.parse(attempt.startedAt))}
              </span>
            </span>
            <Track bars={bars[index]!} />
            <span className="min-w-16 text-right whitespace-nowrap tabular-nums">
              {inWords(attempt.durationMs / 1000)}
            </span>
            <span className="sr-only">{describePhases(attempt)}</span>
          </button>
        </li>
      ))}
      {nextAttemptAt !== null && (
        <li className={`${ROW} px-2 py-1 text-muted`}>
          <span className="tabular-nums">Attempt {(attempts.at(-1)?.number ?? 0) + 1}</span>
          <span />
          <span className="min-w-16 text-right">
            <Time at={nextAttemptAt} />
          </span>
        </li>
      )}
    </ol>
  );
}

function describePhases({ phases }: Attempt): string {
  return phases.map(({ name, ms }) => `${NAMES[name]} ${inWords(ms / 1000)}`).join(', ');
}

function describe(attempt: Attempt): string {
  const { number, startedAt, durationMs, sinceLastS } = attempt;
  const since = sinceLastS === null ? '' : `, ${inWords(sinceLastS)} after the one before`;
  return `Attempt ${number}, ${absoluteTime(startedAt)}${since}: ${inWords(durationMs / 1000)} (${describePhases(attempt)})`;
}

/** The phases of one attempt, each on a line of its own. */
export function Phases({ attempt }: { attempt: Attempt }): ReactNode {
  const [bars = []] = barsOf([attempt]);
  if (attempt.phases.length < 2) return null;
  return (
    <dl className="space-y-1.5 border-t border-line pt-3" aria-label="Phases of the attempt">
      {bars.map((bar) => (
        <div
          key={bar.name}
          className={ROW}
          title={`${MEANINGS[bar.name]}${bar.isCut ? '. The bar is shortened.' : ''}`}
        >
          <dt className="flex items-center gap-1.5">
            <span aria-hidden className={`size-2 shrink-0 rounded-[2px] ${FILLS[bar.name]}`} />
            {NAMES[bar.name]}
          </dt>
          <dd className="contents">
            <Track bars={[bar]} />
            <span className="min-w-16 text-right whitespace-nowrap tabular-nums">
              {inWords(bar.ms / 1000)}
            </span>
          </dd>
        </div>
      ))}
      {attempt.isReused && (
        <p className="text-sm text-muted">
          The connection was open from an earlier message, so there was no handshake.
        </p>
      )}
    </dl>
  );
}

function Track({ bars }: { bars: readonly Bar[] }): ReactNode {
  return (
    <span aria-hidden className="relative h-3 overflow-hidden rounded-[3px] bg-hover">
      {bars.map((bar) => (
        <Segment key={bar.name} bar={bar} />
      ))}
    </span>
  );
}

/** A gap across a bar that is too long for the scale. */
const CUT =
  'after:absolute after:inset-y-0 after:left-1/2 after:w-1.5 after:-skew-x-[20deg] after:bg-surface';

function Segment({ bar }: { bar: Bar }): ReactNode {
  const { name, startPercent, widthPercent, isCut } = bar;
  return (
    <span
      className={`absolute inset-y-0 border-r border-surface ${FILLS[name]} ${isCut ? CUT : ''}`}
      style={{ left: `${startPercent}%`, width: `${widthPercent}%` }}
    />
  );
}
