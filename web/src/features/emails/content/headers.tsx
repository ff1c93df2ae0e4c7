/** The header fields of a message, each with its purpose. */
import type { ReactNode } from 'react';
import type { Diagnosis, EmailInspection } from '../../../../../sdk/src/api.ts';
import { Card } from '../../../ui/card.tsx';
import { Authentication } from './authentication.tsx';

const MEANINGS: Readonly<Record<string, string>> = {
  from: 'The sender that the reader sees. DMARC compares its domain with those of DKIM and SPF.',
  to: 'The recipients that the reader sees. Delivery uses the envelope instead.',
  cc: 'More recipients, visible to all.',
  subject: 'The line in the message list of a mail program.',
  date: 'When the email was accepted.',
  'message-id': 'Identifies this message. Replies and threads refer to it.',
  'reply-to': 'Where replies go instead of the sender.',
  'return-path': 'Where bounces go. SPF checks its domain.',
  'in-reply-to': 'The message that this one replies to.',
  references: 'Earlier messages of the thread.',
  'mime-version': 'The message uses MIME (RFC 2045).',
  'content-type': 'The type and structure of the body.',
  'content-transfer-encoding': 'How the body is encoded as text.',
  'list-unsubscribe': 'Where mail programs unsubscribe the reader.',
  'list-unsubscribe-post': 'Unsubscribing takes one click (RFC 8058).',
  'list-id': 'The mailing list of the message.',
  'feedback-id': 'Gmail groups complaints by it.',
  'auto-submitted': 'Sent by a machine. It gets no out-of-office replies.',
  precedence: 'Bulk mail. It gets no out-of-office replies.',
  received: 'A server that passed the message on.',
  sender: 'The sender, when it is not the author.',
};

export function Headers(props: {
  inspection: EmailInspection;
  authentication: Diagnosis['sender']['authentication'];
}): ReactNode {
  const { inspection, authentication } = props;
  return (
    <div className="space-y-4">
      {authentication && (
        <Card title="Sender authentication">
          <Authentication authentication={authentication} />
        </Card>
      )}
      <Card
        title="Header"
        wide={
          <dl className="divide-y divide-line">
            {inspection.headers.map(({ name, value }, index) => (
              <div key={index} className="gap-4 px-(--page-x) py-2 sm:flex">
                <dt className="w-44 shrink-0 text-sm font-medium break-words">{name}</dt>
                <dd className="min-w-0 grow">
                  <p className="line-clamp-4 font-mono text-xs leading-5 [overflow-wrap:anywhere]">
                    {value}
                  </p>
                  <p className="text-sm text-muted">{meaningOf(name, value)}</p>
                </dd>
              </div>
            ))}
          </dl>
        }
      />
    </div>
  );
}

function meaningOf(name: string, value: string): string | undefined {
  const key = name.toLowerCase();
  if (key !== 'dkim-signature') return MEANINGS[key];
  const tag = (letter: string): string =>
    new RegExp(`(?:^|;)\\s*${letter}\\s*=\\s*([^;\\s]+)`).exec(value)?.[1] ?? '?';
  return `Signed by ${tag('d')} (${tag('a')}). The public key is at ${tag('s')}._domainkey.${tag('d')}.`;
}
