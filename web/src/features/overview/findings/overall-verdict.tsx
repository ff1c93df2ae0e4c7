/** The verdict of the overview, with a strip of the last 24 hours. It has the action of a single finding. */
import type { ReactNode } from 'react';
import { Link } from '@tanstack/react-router';
import { useApi } from '../../../api/scope.ts';
import type { Queue } from '../../../../../sdk/src/api.ts';
import { absoluteTime } from '../../../lib/time.ts';
import { Verdict } from '../../../ui/verdict.tsx';
import { QueueSummary } from '../../queue/queue-words.tsx';
import { FindingActions } from './finding-cards.tsx';
import type { Attention } from './use-findings.ts';
import { type HourState, hourText, overallOf, statesOf, stripText } from './verdict.ts';

export function OverallVerdict(props: {
  attention: Attention;
  queue: Queue | undefined;
}): ReactNode {
  const { findings, hours, limits } = props.attention;
  const { scope } = useApi();
  const urgent = findings.filter(({ weight }) => weight !== 'low');
  const { tone, title, cause, sentences, since, only } = overallOf(urgent);
  const states = statesOf(hours, urgent, limits);
  const hasMail = states.some((state) => state !== 'quiet');
  return (
    <Verdict
      tone={tone}
      title={
        <>
          {title}
          {since !== null && (
            <>
              {' since '}
              <time dateTime={since} title={absoluteTime(since)}>
                {sinceText(since)}
              </time>
            </>
          )}
          {cause !== null && `: ${cause}`}
        </>
      }
      action={
        (only !== null || hasMail) && (
          <>
            {only !== null && <FindingActions finding={only} isPrimary />}
            {hasMail && <Strip hours={hours} states={states} />}
          </>
        )
      }
    >
      {sentences.length > 0 && <p>{sentences.join(' ')}</p>}
      {(only !== null || props.queue) && (
        <p className="text-sm text-muted">
          {only !== null && <>For {only.owner}. </>}
          {props.queue && <QueueSummary queue={props.queue} />}{' '}
          {props.queue && props.queue.waiting > 0 && (
            <Link to="/$project/$environment/queue" params={scope} className="link">
              Show queue
            </Link>
          )}
        </p>
      )}
    </Verdict>
  );
}

function Strip({
  hours,
  states,
}: {
  hours: Attention['hours'];
  states: readonly HourState[];
}): ReactNode {
  return (
    <div className="mt-1 w-full">
      <div
        role="img"
        aria-label={`The last 24 hours: ${stripText(hours, states)}.`}
        className="flex gap-0.5"
      >
        {hours.map(({ startMs }, index) => (
          <span
            key={startMs}
            data-tone={states[index]}
            title={`${hourText(startMs)}: ${WORDS[states[index]!]}`}
            className={`h-3 grow rounded-[2px] ${states[index] === 'quiet' ? 'bg-edge' : 'bg-(--tone-fill)'}`}
          />
        ))}
      </div>
      <p className="mt-1 flex justify-between text-xs text-muted tabular-nums">
        <span>Deliveries in each hour since {hourText(hours[0]!.startMs)} yesterday</span>
        <span>Now</span>
      </p>
    </div>
  );
}

const WORDS = {
  good: 'well',
  wait: 'needed attention',
  bad: 'degraded',
  quiet: 'no mail',
} as const;

const time = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit' });
const dayAndTime = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: 'numeric',
  minute: '2-digit',
});

/** The time of today, or the day with it. */
function sinceText(since: string): string {
  const at = new Date(since);
  const isToday = at.toDateString() === new Date().toDateString();
  return (isToday ? time : dayAndTime).format(at);
}
