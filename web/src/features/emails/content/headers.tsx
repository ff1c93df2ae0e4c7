/** The header of a message, field by field, each with what it is for. */
import type { ReactNode } from 'react';
import type { Diagnosis, EmailInspection } from '../../../../../sdk/src/api.ts';
import { Authentication } from './authentication.tsx';

const MEANINGS: Readonly<Record<string, string>> = {
  from: 'Who the reader sees as the sender; DMARC compares its domain with those of DKIM and SPF.',
  to: 'Who the reader sees as addressed; where it is delivered is decided by the envelope.',
  cc: 'Further readers, whom all see.',
  subject: 'The line in the list of the mail program.',
  date: 'When it was accepted for sending.',
  'message-id': 'Names this message for good; replies and threads refer to it.',
  'reply-to': 'Where replies go instead of to the sender.',
  'return-path': 'Where bounces go; SPF is checked for its domain.',
  'in-reply-to': 'The message that this one replies to.',
  references: 'The messages of the same thread.',
  'mime-version': 'The message has parts (RFC 2045).',
  'content-type': 'How the body is made up.',
  'content-transfer-encoding': 'How bytes are written as lines.',
  'list-unsubscribe': 'Where mail programs unsubscribe the reader.',
  'list-unsubscribe-post': 'Unsubscribing needs one click only (RFC 8058).',
  'list-id': 'The list that the message belongs to.',
  'feedback-id': 'What Gmail counts complaints by.',
  'auto-submitted': 'A machine wrote it; out-of-office replies are not sent to it.',
  precedence: 'Bulk mail; out-of-office replies are not sent to it.',
  received: 'A server that it came through.',
  sender: 'Who sent it, if not the author.',
};

export function Headers(props: {
  inspection: EmailInspection;
  authentication: Diagnosis['sender']['authentication'];
}): ReactNode {
  const { inspection, authentication } = props;
  return (
    <div className="space-y-6">
      {authentication && (
        <section>
          <h2 className="mb-2 font-medium">How receivers judge the sender</h2>
          <Authentication authentication={authentication} />
        </section>
      )}
      <section>
        <h2 className="mb-2 font-medium">Header</h2>
        <dl className="divide-y divide-line rounded-lg border border-line">
          {inspection.headers.map(({ name, value }, index) => (
            <div key={index} className="gap-4 px-3 py-2 sm:flex">
              <dt className="w-44 shrink-0 text-sm font-medium break-words">{name}</dt>
              <dd className="min-w-0 grow">
                <p className="line-clamp-4 font-mono text-xs leading-5 break-all">{value}</p>
                <p className="text-sm text-muted">{meaningOf(name, value)}</p>
              </dd>
            </div>
          ))}
        </dl>
      </section>
    </div>
  );
}

function meaningOf(name: string, value: string): string | undefined {
  const key = name.toLowerCase();
  if (key !== 'dkim-signature') return MEANINGS[key];
  const tag = (letter: string): string =>
    new RegExp(`(?:^|;)\\s*${letter}\\s*=\\s*([^;\\s]+)`).exec(value)?.[1] ?? '?';
  return `Signed by ${tag('d')}, whose public key is at ${tag('s')}._domainkey.${tag('d')} (${tag('a')}).`;
}
