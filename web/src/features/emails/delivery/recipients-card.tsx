/**
 * The recipients of an email with several, by equal status and reason. Choosing one shows its attempts below. The
 * verdict of the page has the reason of the first group.
 */
import type { ReactNode } from 'react';
import type { Recipient } from '../../../../../sdk/src/api.ts';
import { recipients as inCount } from '../../../lib/numbers.ts';
import { inWords, secondsBetween } from '../../../lib/time.ts';
import { Address } from '../../../ui/address.tsx';
import { Card } from '../../../ui/card.tsx';
import { Chip } from '../../../ui/chip.tsx';
import { ShareBar } from '../../../ui/share-bar.tsx';
import { STATUS_LOOKS } from '../../../ui/status.tsx';
import { NextTime } from '../../../ui/time.tsx';
import { codesOf, hasTheEmail, type RecipientGroup, splitAdvice } from './recipient-groups.ts';

/** More recipients of a group are folded. Beside those in trouble, the others need fewer rows. */
const SHOWN_MAX = 8;
const SHOWN_OF_DELIVERED_MAX = 3;

type RowProps = Omit<Props, 'groups'>;
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
  const isDivided = groups.length > 1;
  // The verdict has the reason of the first status, unless that has several.
  const isTold = groups.filter(({ status }) => status === groups[0]?.status).length === 1;
  return (
    <Card
      title="Recipients"
      about={isDivided ? `${having} of ${all.length} delivered` : all.length.toLocaleString()}
      actions={isDivided && <Shares groups={groups} />}
      wide={groups.map((group, index) => (
        <section key={group.key} className="border-line not-first:border-t">
          {isDivided && <GroupHead group={group} isInVerdict={isTold && index === 0} />}
          <Rows
            recipients={group.recipients}
            shownMax={isDivided && hasTheEmail(group) ? SHOWN_OF_DELIVERED_MAX : SHOWN_MAX}
            {...props}
          />
        </section>
      ))}
    />
  );
}

function Shares({ groups }: Pick<Props, 'groups'>): ReactNode {
  return (
    <span className="w-30">
      <ShareBar
        parts={groups.map(({ status, recipients }) => ({
          tone: STATUS_LOOKS[status][0],
          value: recipients.length,
          label: status,
        }))}
      />
    </span>
  );
}

function GroupHead(props: { group: RecipientGroup; isInVerdict: boolean }): ReactNode {
  const { status, recipients, reason, smtp } = props.group;
  const [tone, icon] = STATUS_LOOKS[status];
  const facts =
    props.isInVerdict || hasTheEmail(props.group)
      ? []
      : [codesOf(smtp), reason && splitAdvice(reason.advice).cause].filter(Boolean);
  return (
    <h3 className="flex flex-wrap items-center gap-x-2 gap-y-1 bg-sunken px-4 py-2 text-sm font-normal">
      <Chip tone={tone} icon={icon}>
        {status}, {inCount(recipients.length)}
      </Chip>
      {facts.length > 0 && <span className="min-w-0 text-muted">{facts.join(', ')}</span>}
    </h3>
  );
}

function Rows(props: RowProps & { recipients: readonly Recipient[]; shownMax: number }): ReactNode {
  const { recipients, shownMax, ...row } = props;
  const shown = recipients.slice(0, shownMax);
  const folded = recipients.slice(shownMax);
  const hasChosen = folded.some(({ address }) => address === row.chosen);
  return (
    <>
      <ul>
        {shown.map((recipient) => (
          <Row key={recipient.address} recipient={recipient} {...row} />
        ))}
      </ul>
      {folded.length > 0 && (
        <details open={hasChosen}>
          <summary className="border-t border-line px-4 py-2 text-sm text-muted hover:bg-hover">
            {folded.length} more
          </summary>
          <ul>
            {folded.map((recipient) => (
              <Row key={recipient.address} recipient={recipient} {...row} />
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function Row(props: RowProps & { recipient: Recipient }): ReactNode {
  const { recipient, chosen, onChoose, since } = props;
  const { address, kind, status, attempts, completed_at: ended } = recipient;
  // The attempt that is in progress was the next one.
  const next = status === 'sending' ? null : recipient.next_attempt_at;
  const isChosen = address === chosen;
  return (
    <li className={`border-t border-line ${isChosen ? 'bg-accent-tint' : ''}`}>
      <button
        type="button"
        aria-pressed={isChosen}
        onClick={() => onChoose(address)}
        className="flex min-h-11 w-full items-center gap-x-3 px-4 py-2 text-left text-sm -outline-offset-2 hover:bg-hover"
      >
        <span className="min-w-0 grow">
          <Address address={address} />
          {kind !== 'to' && <span className="text-muted"> {kind}</span>}
        </span>
        {/* A single attempt is the rule. */}
        {attempts > 1 && (
          <span className="shrink-0 whitespace-nowrap text-muted tabular-nums">
            {attempts} attempts
          </span>
        )}
        <span className="min-w-14 shrink-0 text-right whitespace-nowrap tabular-nums">
          {ended !== null && attempts > 0 && (
            <span title={`after ${inWords(secondsBetween(since, ended))}`}>
              {inWords(secondsBetween(since, ended))}
            </span>
          )}
          {ended === null && next !== null && <NextTime at={next} />}
        </span>
      </button>
    </li>
  );
}
