/** Beside the emails of a recipient: its suppression with its history, and the latest reply of its provider. */
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
import { changeInWords, REASONS } from './verdict-words.ts';

function Facts({ rows }: { rows: readonly (readonly [name: string, value: ReactNode])[] }) {
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

export function SuppressionCard({ recipient }: { recipient: RecipientOverview }): ReactNode {
  const { suppression, history } = recipient;
  const added = history.find(({ action }) => action === 'added');
  return (
    <Card
      title="Suppression"
      actions={suppression ? <Chip tone="quiet">active</Chip> : <Chip tone="good">none</Chip>}
      footer={
        history.length > 0 && (
          <ol aria-label="History of the suppression" className="space-y-1.5">
            {history.map((entry) => (
              <li key={`${entry.at} ${entry.action}`} className="break-words">
                <time dateTime={entry.at} title={absoluteTime(entry.at)}>
                  {dayTime(entry.at)}
                </time>{' '}
                <span className="text-text">{changeInWords(entry)}</span>
              </li>
            ))}
          </ol>
        )
      }
    >
      {suppression ? (
        <Facts
          rows={[
            ['Why', REASONS[suppression.reason]],
            // The history says when and by whom, while it is kept.
            ...(added === undefined
              ? [['Since', <Absolute key="at" at={suppression.created_at} />] as const]
              : []),
            [
              'Ends',
              suppression.expires_at === null ? (
                'Never'
              ) : (
                <Absolute key="ends" at={suppression.expires_at} />
              ),
            ],
          ]}
        />
      ) : (
        <p className="text-sm text-muted">
          {history.length === 0
            ? 'This address was never suppressed.'
            : 'This address is not suppressed now.'}
        </p>
      )}
    </Card>
  );
}

function Absolute({ at }: { at: string }): ReactNode {
  return <time dateTime={at}>{absoluteTime(at)}</time>;
}

export function ProviderCard({ recipient }: { recipient: RecipientOverview }): ReactNode {
  const { last_reply: last } = recipient;
  const scope = useScope();
  if (last === null) return null;
  const { provider, smtp, completed_at: at } = last;
  const { code, enhanced_code: enhanced, message, mx, tls } = smtp;
  const reply = [code, enhanced, message].filter((part) => part !== null && part !== '').join(' ');
  return (
    <Card
      title={`What ${provider === null ? 'the mail server' : providerName(provider)} says`}
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
      <Facts
        rows={[
          ...(mx === null
            ? []
            : [
                [
                  'Server',
                  <code key="mx" className="font-mono text-xs break-all">
                    {mx}
                  </code>,
                ] as const,
              ]),
          [
            'TLS',
            tls === null
              ? 'None'
              : `${tls.version}${tls.verified ? ', verified' : ', not verified'}`,
          ],
          ...(at === null ? [] : [['When', <Time key="at" at={at} />] as const]),
        ]}
      />
    </Card>
  );
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
