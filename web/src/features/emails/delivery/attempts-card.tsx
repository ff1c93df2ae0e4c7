/** The attempts at one recipient on one time scale, the phases of the chosen one, and the reply that decided. */
import type { UseQueryResult } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { MessagesSquare } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Diagnosis, Email, Recipient, TimelineEventList } from '../../../../../sdk/src/api.ts';
import { Button } from '../../../ui/button.tsx';
import { Card } from '../../../ui/card.tsx';
import { RecipientLink } from '../../../ui/recipient-link.tsx';
import { Problem, RowsSkeleton } from '../../../ui/states.tsx';
import { STATUS_LOOKS } from '../../../ui/status.tsx';
import { type Attempt, attemptsOf } from './attempts.ts';
import { DelayReason, ReceiverDns } from './delay-reason.tsx';
import { DialogueDrawer } from './dialogue-drawer.tsx';
import { Phases, Waterfall } from './waterfall.tsx';

const ROUTE = '/$project/$environment/emails/$id';

type Props = {
  email: Email;
  recipient: Recipient;
  events: UseQueryResult<TimelineEventList>;
  /** undefined while it loads */
  diagnosis: Diagnosis | undefined;
  /** The verdict says why this recipient waits. */
  isInVerdict: boolean;
};

export function AttemptsCard(props: Props): ReactNode {
  const { email, recipient, events, diagnosis, isInVerdict } = props;
  const [isDialogueOpen, setDialogueOpen] = useState(false);
  const navigate = useNavigate();
  const { attempt: asked } = useSearch({ from: ROUTE });
  const attempts = events.isSuccess ? attemptsOf(recipient.address, email, events.data.data) : [];
  const chosen = attempts.find(({ number }) => String(number) === asked) ?? attempts.at(-1) ?? null;
  const choose = (number: number): void =>
    void navigate({
      to: '.',
      params: true,
      search: (all) => ({ ...all, attempt: String(number) }),
      replace: true,
    });
  return (
    <Card
      title="Attempts"
      about={<RecipientLink address={recipient.address} />}
      actions={
        chosen !== null &&
        chosen.transcript.length > 0 && (
          <Button size="small" className="print:hidden" onClick={() => setDialogueOpen(true)}>
            <MessagesSquare size={14} aria-hidden />
            SMTP dialogue
          </Button>
        )
      }
    >
      {events.isPending && <RowsSkeleton rows={2} />}
      {events.isError && <Problem error={events.error} retry={() => void events.refetch()} />}
      {events.isSuccess && attempts.length === 0 && <NoAttempt recipient={recipient} />}
      {chosen !== null && (
        <>
          <Waterfall
            attempts={attempts}
            chosen={chosen.number}
            onChoose={choose}
            nextAttemptAt={recipient.next_attempt_at}
          />
          <Phases attempt={chosen} />
          <Reply attempt={chosen} recipient={recipient} />
        </>
      )}
      <Diagnosed recipient={recipient} diagnosis={diagnosis} isInVerdict={isInVerdict} />
      {chosen !== null && isDialogueOpen && (
        <DialogueDrawer
          attempt={chosen}
          reason={isLast(chosen, attempts) ? recipient.reason : null}
          onClose={() => setDialogueOpen(false)}
        />
      )}
    </Card>
  );
}

function isLast(attempt: Attempt, all: readonly Attempt[]): boolean {
  return attempt === all.at(-1);
}

function NoAttempt({ recipient }: { recipient: Recipient }): ReactNode {
  const { attempts, status, completed_at: ended } = recipient;
  return (
    <p className="text-sm text-muted">
      {attempts > 0
        ? 'The attempts are no longer stored.'
        : status === 'suppressed'
          ? 'No attempt was made: the address is on the suppression list.'
          : ended === null
            ? 'No attempt has been made yet.'
            : 'No attempt was made.'}
    </p>
  );
}

/** The reply that decided, with the server that gave it. */
function Reply({ attempt, recipient }: { attempt: Attempt; recipient: Recipient }): ReactNode {
  const { reply, server, isInDoubt } = attempt;
  const { mx, ip, tls, tlsPolicy } = server;
  const [tone] = STATUS_LOOKS[recipient.status];
  const facts = [
    mx === null ? null : ip === null ? mx : `${mx} [${ip}]`,
    tls && `${tls.version}, ${tls.verified ? 'certificate verified' : 'certificate not verified'}`,
    tls === null && mx !== null && ip !== null ? 'no TLS' : null,
    tlsPolicy !== null && tlsPolicy !== 'none' ? `TLS rule ${tlsPolicy}` : null,
  ].filter(Boolean);
  return (
    <div
      data-tone={tone}
      className="rounded-md border border-line bg-sunken p-3 font-mono text-xs leading-relaxed [overflow-wrap:anywhere]"
    >
      {facts.length > 0 && <p className="text-muted">{facts.join(', ')}</p>}
      {reply && (
        <p>
          <mark className="-mx-1 rounded-[3px] bg-(--tone-tint) px-1 text-(--tone) box-decoration-clone">
            {[reply.code, reply.enhancedCode, reply.message].filter(Boolean).join(' ')}
          </mark>
        </p>
      )}
      {isInDoubt && (
        <p className="text-muted">In doubt: the message may have arrived, because no reply came.</p>
      )}
    </div>
  );
}

/** Shows the limit that the recipient waits for, and its mail servers in DNS. */
function Diagnosed({
  recipient,
  diagnosis,
  isInVerdict,
}: Pick<Props, 'recipient' | 'diagnosis' | 'isInVerdict'>): ReactNode {
  const found = diagnosis?.recipients.find(({ address }) => address === recipient.address);
  if (!diagnosis || !found) return null;
  const { held_by: held, route } = found;
  return (
    <>
      {held && !isInVerdict && (
        <DelayReason
          delay={held}
          provider={route?.provider ?? null}
          expiresAt={diagnosis.expires_at}
        />
      )}
      {route && <ReceiverDns route={route} />}
    </>
  );
}
