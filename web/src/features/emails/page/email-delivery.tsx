/** The delivery of an email: recipients with their outcome or reason to wait, timeline, webhooks, authentication. */
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Diagnosis, Email, Recipient } from '../../../../../sdk/src/api.ts';
import { useApi } from '../../../api/scope.ts';
import { Authentication } from '../content/authentication.tsx';
import { Problem, RowsSkeleton } from '../../../ui/states.tsx';
import { StatusBadge } from '../../../ui/status.tsx';
import { inWords, secondsBetween } from '../../../lib/time.ts';
import { Timeline } from './email-timeline.tsx';
import { DelayReason, ReceiverDns } from './email-diagnosis.tsx';
import { EmailWebhooks } from './email-webhooks.tsx';

type RecipientDiagnosis = Diagnosis['recipients'][number];

export function EmailDelivery({
  email,
  diagnosis,
}: {
  email: Email;
  diagnosis: UseQueryResult<Diagnosis>;
}): ReactNode {
  const api = useApi();
  const timeline = useQuery(api.query('listEmailEvents', { path: { id: email.id } }));
  const diagnosisOf = new Map(diagnosis.data?.recipients.map((one) => [one.address, one]));
  return (
    <div className="space-y-6 p-4">
      <Section title="Recipients">
        <ul className="divide-y divide-line rounded-lg border border-line">
          {email.recipients.map((recipient) => (
            <RecipientRow
              key={recipient.address}
              recipient={recipient}
              diagnosis={diagnosisOf.get(recipient.address)}
              since={email.scheduled_at ?? email.created_at}
              expiresAt={diagnosis.data?.expires_at}
            />
          ))}
        </ul>
        {diagnosis.isError && (
          <Problem error={diagnosis.error} retry={() => void diagnosis.refetch()} />
        )}
      </Section>
      <Section title="Timeline">
        {timeline.isPending && <RowsSkeleton rows={3} />}
        {timeline.isError && (
          <Problem error={timeline.error} retry={() => void timeline.refetch()} />
        )}
        {timeline.isSuccess && <Timeline events={timeline.data.data} />}
      </Section>
      <EmailWebhooks
        emailId={email.id}
        around={(deliveries) => <Section title="Webhooks">{deliveries}</Section>}
      />
      {diagnosis.data?.sender.authentication && (
        <Section title="Authentication">
          <Authentication authentication={diagnosis.data.sender.authentication} />
        </Section>
      )}
    </div>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }): ReactNode {
  return (
    <section>
      <h2 className="mb-2 font-medium">{title}</h2>
      {children}
    </section>
  );
}

const HAS_THE_EMAIL = new Set(['delivered', 'sent']);

/** Unfolded unless the recipient has the email. */
function RecipientRow(props: {
  recipient: Recipient;
  diagnosis: RecipientDiagnosis | undefined;
  since: string;
  /** undefined: not known yet. */
  expiresAt: string | undefined;
}): ReactNode {
  const { recipient, diagnosis, since, expiresAt } = props;
  const { address, kind, status, attempts, completed_at: ended } = recipient;
  return (
    <li>
      <details open={!HAS_THE_EMAIL.has(status)} className="group">
        <summary className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2 marker:content-['']">
          <StatusBadge status={status} />
          <span className="min-w-0 grow font-mono text-xs break-all">{address}</span>
          <span className="text-sm text-muted tabular-nums">
            {kind === 'to' ? '' : `${kind} · `}
            {attempts} {attempts === 1 ? 'attempt' : 'attempts'}
            {ended && ` · ${inWords(secondsBetween(since, ended))}`}
          </span>
        </summary>
        <div className="space-y-2 px-3 pb-3 text-sm">
          {diagnosis && <p>{diagnosis.what_happened}</p>}
          {!diagnosis && recipient.smtp && <p>{recipient.smtp.message}</p>}
          {(diagnosis?.next_step ?? recipient.reason?.advice) && (
            <p className="font-medium">{diagnosis?.next_step ?? recipient.reason?.advice}</p>
          )}
          {diagnosis?.held_by && expiresAt !== undefined && (
            <DelayReason
              delay={diagnosis.held_by}
              provider={diagnosis.route?.provider ?? null}
              expiresAt={expiresAt}
            />
          )}
          {diagnosis?.route && <ReceiverDns route={diagnosis.route} />}
          <Facts recipient={recipient} provider={diagnosis?.route?.provider ?? null} />
        </div>
      </details>
    </li>
  );
}

function Facts({
  recipient,
  provider,
}: {
  recipient: Recipient;
  provider: string | null;
}): ReactNode {
  const { smtp } = recipient;
  const facts: [string, string | null | undefined][] = [
    ['Server', smtp?.mx],
    ['Address', smtp?.ip],
    ['Provider', provider],
    [
      'TLS',
      smtp?.tls ? `${smtp.tls.version}, ${smtp.tls.verified ? 'verified' : 'not verified'}` : null,
    ],
    ['TLS rule', smtp?.tls_policy],
  ];
  const known = facts.filter(([, value]) => value);
  if (known.length === 0) return null;
  return (
    <dl className="flex flex-wrap gap-x-6 gap-y-1 text-muted">
      {known.map(([name, value]) => (
        <div key={name} className="flex gap-1.5">
          <dt>{name}</dt>
          <dd className="font-mono text-xs leading-5 break-all text-text">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
