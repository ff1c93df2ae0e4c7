/** The rows of webhook deliveries: response, event and recipient, first line, duration, attempts, next attempt. */
import type { ReactNode } from 'react';
import type { WebhookDelivery } from '../../../../sdk/src/api.ts';
import { serverNowMs } from '../../lib/clock.ts';
import { inWords } from '../../lib/time.ts';
import { selectionColumn } from '../../ui/bulk.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { firstLine } from './responses.ts';
import { CodeChip } from './statistics.tsx';

type Props = {
  rows: readonly WebhookDelivery[];
  selected: ReadonlySet<string>;
  /** Null when the role permits no replay. */
  onSelect: ((selected: ReadonlySet<string>) => void) | null;
  show: (id: string) => void;
  /** The webhook is suspended, so what is due waits. */
  isSuspended: boolean;
};

export function DeliveryTable({ rows, selected, onSelect, show, isSuspended }: Props): ReactNode {
  return (
    <Table
      label="List of deliveries"
      rows={rows}
      keyOf={({ id }) => id}
      isChosen={({ id }) => selected.has(id)}
      columns={[
        {
          ...selectionColumn({
            rows,
            keyOf: ({ id }) => id,
            nameOf: ({ type, recipient }) => `${type} ${recipient ?? ''}`.trim(),
            selected,
            onSelect: (next) => onSelect?.(next),
          }),
          isHidden: onSelect === null,
        },
        { title: 'Code', isState: true, cell: (row) => <StateChip delivery={row} /> },
        { title: 'Event', cell: (row) => <Event delivery={row} show={show} /> },
        { title: 'First line of the response', isPlain: true, cell: responseOf },
        {
          title: 'Took',
          isNumber: true,
          cell: ({ last_attempt: last }) => (
            <span className="whitespace-nowrap">
              {last === null ? '–' : inWords(last.latency_ms / 1000)}
            </span>
          ),
        },
        { title: 'Attempts', isNumber: true, cell: ({ attempts }) => attempts },
        {
          title: 'Next or ended',
          isNumber: true,
          cell: (row) => <Next delivery={row} isSuspended={isSuspended} />,
        },
      ]}
    />
  );
}

/** The recipient stands beside the event where there is room. */
function Event(props: { delivery: WebhookDelivery; show: (id: string) => void }): ReactNode {
  const { id, type, recipient } = props.delivery;
  return (
    <div className="flex flex-wrap items-baseline gap-x-3 md:max-w-96">
      <button
        type="button"
        onClick={() => props.show(id)}
        className="cell-link max-w-full truncate text-left font-medium md:min-w-32"
      >
        {type}
      </button>
      {recipient !== null && (
        <span className="max-w-full truncate text-xs font-normal text-muted" title={recipient}>
          {recipient}
        </span>
      )}
    </div>
  );
}

function responseOf({ last_attempt: last }: WebhookDelivery): ReactNode {
  if (last === null) return <span className="text-muted">Not tried yet</span>;
  const line = firstLine(last);
  return (
    <span className="line-clamp-1 font-mono text-xs [overflow-wrap:anywhere]" title={line}>
      {line || '–'}
    </span>
  );
}

/** The last response; before it, that the delivery waits. */
function StateChip({ delivery }: { delivery: WebhookDelivery }): ReactNode {
  const { last_attempt: last, status } = delivery;
  if (last !== null) return <CodeChip attempt={last} />;
  return status === 'pending' ? <Chip tone="open">Waiting</Chip> : <Chip tone="quiet">Failed</Chip>;
}

function Next(props: { delivery: WebhookDelivery; isSuspended: boolean }): ReactNode {
  const { delivery, isSuspended } = props;
  const { next_attempt_at: next, completed_at: completed, created_at: created, status } = delivery;
  if (status !== 'pending') {
    return (
      <span className="text-muted">
        {status === 'failed' && 'failed '}
        <Time at={completed ?? created} />
      </span>
    );
  }
  if (next === null) return 'now';
  if (!isDue(next)) return <Time at={next} />;
  return isSuspended ? (
    <span title="The webhook is suspended. Then the oldest delivery is attempted first.">
      waits
    </span>
  ) : (
    <span title="Due; it waits for its turn">due</span>
  );
}

function isDue(at: string): boolean {
  return Date.parse(at) <= serverNowMs();
}
