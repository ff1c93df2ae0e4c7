/** Beside the emails of a recipient: the last reply of its mail server, and the history of its suppression. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { QueueProvider, RecipientOverview } from '../../../../sdk/src/api.ts';
import { useApi, useScope } from '../../api/scope.ts';
import { providerName } from '../../lib/providers.ts';
import { absoluteTime, dayTime } from '../../lib/time.ts';
import { Card } from '../../ui/card.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Time } from '../../ui/time.tsx';
import type { Tone } from '../../ui/tone.ts';
import { changeInWords } from './verdict-words.ts';

function Facts({ rows }: { rows: readonly Fact[] }): ReactNode {
  return (
    <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-4 gap-y-1.5 text-sm">
      {rows.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="break-words">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The verdict has the present suppression, so this has only earlier changes and their authors. */
export function SuppressionHistory(props: { history: RecipientOverview['history'] }): ReactNode {
  if (props.history.length === 0) return null;
  return (
    <Card title="History of the suppression">
      <ol aria-label="History of the suppression" className="space-y-1.5 text-sm">
        {props.history.map((entry) => (
          <li
            key={`${entry.at} ${entry.action}`}
            className="flex flex-wrap justify-between gap-x-4"
          >
            <span className="min-w-0 break-words first-letter:uppercase">
              {changeInWords(entry)}
            </span>
            <time
              dateTime={entry.at}
              title={absoluteTime(entry.at)}
              className="ml-auto text-muted tabular-nums"
            >
              {dayTime(entry.at)}
            </time>
          </li>
        ))}
      </ol>
    </Card>
  );
}

export function LastReplyCard({ recipient }: { recipient: RecipientOverview }): ReactNode {
  const { last_reply: last } = recipient;
  const scope = useScope();
  if (last === null) return null;
  const { provider, smtp, completed_at: at } = last;
  const { code, enhanced_code: enhanced, message } = smtp;
  const reply = [code, enhanced, message].filter((part) => part !== null && part !== '').join(' ');
  const facts = connectionFacts(smtp, provider);
  return (
    <Card
      title={provider === null ? 'Last reply' : `Last reply from ${providerName(provider)}`}
      about={at !== null && <Time at={at} />}
      actions={provider !== null && <ProviderState provider={provider} />}
      footer={
        provider !== null && (
          <Link
            to="/$project/$environment/queue"
            params={scope}
            search={{ provider }}
            className="link"
          >
            Show the queue of {providerName(provider)}
          </Link>
        )
      }
    >
      <p
        tabIndex={0}
        role="region"
        aria-label="Last reply"
        className="max-h-40 overflow-auto rounded-md border border-line bg-side p-2.5 font-mono text-xs break-words"
      >
        {reply}
      </p>
      {facts.length > 0 && <Facts rows={facts} />}
    </Card>
  );
}

type Fact = readonly [name: string, value: ReactNode];

/** Returns the server and its TLS. The simulator makes no connection. */
function connectionFacts(
  { mx, tls }: NonNullable<RecipientOverview['last_reply']>['smtp'],
  provider: string | null,
): Fact[] {
  if (mx === null || provider === 'simulator') return [];
  const server = (
    <code key="mx" className="font-mono text-xs break-all">
      {mx}
    </code>
  );
  const encryption =
    tls === null ? 'None' : `${tls.version}${tls.verified ? ', verified' : ', not verified'}`;
  // A server that is no part of a known provider names the card.
  return [...(mx === provider ? [] : [['Server', server] as const]), ['TLS', encryption]];
}

const TONES: Readonly<Record<string, Tone>> = {
  open: 'good',
  full: 'open',
  slowed: 'wait',
  suspended: 'bad',
  blocked: 'bad',
};

/** Without waiting mail the queue knows no state of the provider. */
function ProviderState({ provider }: { provider: string }): ReactNode {
  const api = useApi();
  const { data } = useQuery(api.query('getQueueProvider', { path: { provider } }));
  const state: QueueProvider['state'] | undefined = data?.state;
  if (!state) return null;
  const tone = TONES[state] ?? 'open';
  return (
    <Chip tone={tone} title={data?.limit?.message ?? ''}>
      {state}
    </Chip>
  );
}
