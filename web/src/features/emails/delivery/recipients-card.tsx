/** The recipients of an email, by equal status and reason. Choosing one shows its attempts below. */
import { Link } from '@tanstack/react-router';
import { UserRound } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Recipient } from '../../../../../sdk/src/api.ts';
import { useScope } from '../../../api/scope.ts';
import { recipients as inCount } from '../../../lib/numbers.ts';
import { inWords, secondsBetween } from '../../../lib/time.ts';
import { Address } from '../../../ui/address.tsx';
import { Card } from '../../../ui/card.tsx';
import { Chip } from '../../../ui/chip.tsx';
import { ShareBar } from '../../../ui/share-bar.tsx';
import { STATUS_LOOKS } from '../../../ui/status.tsx';
import { NextTime } from '../../../ui/time.tsx';
import { codesOf, hasTheEmail, type RecipientGroup, splitAdvice } from './recipient-groups.ts';

/** More recipients of a group are folded. */
const SHOWN_MAX = 8;

type Props = {
  groups: readonly RecipientGroup[];
  chosen: string | null;
  onChoose: (address: string) => void;
  /** When the email was due. */
  since: string;
};

export function RecipientsCard({ groups, ...props }: Props): ReactNode {
  const all = groups.flatMap(({ recipients }) => recipients);
  const having = all.filter(hasTheEmail).length;
  return (
    <Card
      title="Recipients"
      about={`${having} of ${all.length} delivered`}
      actions={
        <span className="w-30">
          <ShareBar
            parts={groups.map(({ status, recipients }) => ({
              tone: STATUS_LOOKS[status][0],
              value: recipients.length,
              label: status,
            }))}
          />
        </span>
      }
      wide={groups.map((group) => (
        <Group key={group.key} group={group} {...props} />
      ))}
    />
  );
}

function Group({ group, ...props }: Omit<Props, 'groups'> & { group: RecipientGroup }): ReactNode {
  const { status, recipients, reason, smtp } = group;
  const [tone, icon] = STATUS_LOOKS[status];
  const shown = recipients.slice(0, SHOWN_MAX);
  const folded = recipients.slice(SHOWN_MAX);
  const hasChosen = folded.some(({ address }) => address === props.chosen);
  const facts = [codesOf(smtp), reason && splitAdvice(reason.advice).cause].filter(Boolean);
  return (
    <section className="border-line not-first:border-t">
      <h3 className="flex flex-wrap items-center gap-x-2 gap-y-1 bg-sunken px-4 py-2 text-sm font-normal">
        <Chip tone={tone} icon={icon}>
          {status}, {inCount(recipients.length)}
        </Chip>
        {facts.length > 0 && <span className="min-w-0 text-muted">{facts.join(', ')}</span>}
      </h3>
      <ul>
        {shown.map((recipient) => (
          <Row key={recipient.address} recipient={recipient} {...props} />
        ))}
      </ul>
      {folded.length > 0 && (
        <details open={hasChosen}>
          <summary className="border-t border-line px-4 py-2 text-sm text-muted hover:bg-hover">
            {folded.length} more
          </summary>
          <ul>
            {folded.map((recipient) => (
              <Row key={recipient.address} recipient={recipient} {...props} />
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function Row(props: Omit<Props, 'groups'> & { recipient: Recipient }): ReactNode {
  const { recipient, chosen, onChoose, since } = props;
  const { address, kind, status, attempts, completed_at: ended } = recipient;
  // The attempt that is in progress was the next one.
  const next = status === 'sending' ? null : recipient.next_attempt_at;
  const scope = useScope();
  const isChosen = address === chosen;
  return (
    <li className={`flex items-center border-t border-line ${isChosen ? 'bg-accent-tint' : ''}`}>
      <button
        type="button"
        aria-pressed={isChosen}
        onClick={() => onChoose(address)}
        className="flex min-w-0 grow items-baseline gap-x-3 py-2 pr-2 pl-4 text-left text-sm -outline-offset-2 hover:bg-hover max-sm:flex-wrap max-sm:justify-between"
      >
        <span className="min-w-0 grow max-sm:basis-full">
          <Address address={address} />
          {kind !== 'to' && <span className="text-muted"> {kind}</span>}
        </span>
        <span className="shrink-0 whitespace-nowrap text-muted tabular-nums">
          {attempts} {attempts === 1 ? 'attempt' : 'attempts'}
        </span>
        <span className="min-w-14 shrink-0 text-right whitespace-nowrap tabular-nums">
          {ended !== null && attempts > 0 && (
            <span title={`after ${inWords(secondsBetween(since, ended))}`}>
              {inWords(secondsBetween(since, ended))}
            </span>
          )}
          {ended === null && next !== null && <NextTime at={next} />}
        </span>
      </button>
      <Link
        to="/$project/$environment/recipients/$address"
        params={{ ...scope, address }}
        preload={false}
        aria-label={`Everything about ${address}`}
        title="All emails to this address, and what holds them back"
        className="mr-2 grid size-7 shrink-0 place-items-center rounded-md text-muted hover:bg-hover hover:text-text"
      >
        <UserRound size={14} aria-hidden />
      </Link>
    </li>
  );
}
