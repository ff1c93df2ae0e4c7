/** The rows of webhook deliveries: response, event and recipient, first line, duration, attempts, next attempt. */
import type { ReactNode } from 'react';
import type { WebhookDelivery } from '../../../../sdk/src/api.ts';
import { serverNowMs } from '../../lib/clock.ts';
import { inWords } from '../../lib/time.ts';
import { Chip } from '../../ui/chip.tsx';
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

const CELL = 'h-row px-3 py-1 first:pl-(--page-x) last:pr-(--page-x) text-left';
const NUMBER = `${CELL} text-right tabular-nums whitespace-nowrap max-md:hidden`;

export function DeliveryTable({ rows, selected, onSelect, show, isSuspended }: Props): ReactNode {
  const isAll = rows.length > 0 && rows.every(({ id }) => selected.has(id));
  const toggle = (id: string): void => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect?.(next);
  };
  return (
    <div role="group" aria-label="Rows" tabIndex={0} className="relative overflow-x-auto">
      <table className="w-full text-sm">
        <thead>
          <tr className="text-xs text-muted">
            {onSelect && (
              <th scope="col" className={`${CELL} w-9`}>
                <Check
                  label="Select all shown"
                  isOn={isAll}
                  onChange={() => onSelect(isAll ? new Set() : new Set(rows.map(({ id }) => id)))}
                />
              </th>
            )}
            {['Code', 'Event'].map((title) => (
              <th key={title} scope="col" className={`${CELL} font-medium`}>
                {title}
              </th>
            ))}
            <th scope="col" className={`${CELL} font-medium max-md:hidden`}>
              First line of the response
            </th>
            {['Took', 'Attempts'].map((title) => (
              <th key={title} scope="col" className={`${NUMBER} font-medium`}>
                {title}
              </th>
            ))}
            <th
              scope="col"
              className={`${CELL} text-right font-medium whitespace-nowrap max-sm:hidden`}
            >
              Next or ended
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row
              key={row.id}
              delivery={row}
              isSelected={selected.has(row.id)}
              onSelect={onSelect && (() => toggle(row.id))}
              show={show}
              isSuspended={isSuspended}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row(props: {
  delivery: WebhookDelivery;
  isSelected: boolean;
  onSelect: (() => void) | null;
  show: (id: string) => void;
  isSuspended: boolean;
}): ReactNode {
  const { delivery, isSelected, onSelect, show } = props;
  const { id, type, recipient, attempts, last_attempt: last } = delivery;
  return (
    <tr
      data-chosen={isSelected || undefined}
      className="border-t border-line hover:bg-hover data-chosen:bg-accent-tint"
    >
      {onSelect && (
        <td className={CELL}>
          <Check
            label={`Select ${type} ${recipient ?? ''}`.trim()}
            isOn={isSelected}
            onChange={onSelect}
          />
        </td>
      )}
      <td className={CELL}>
        <StateChip delivery={delivery} />
      </td>
      <td className={`${CELL} max-w-64`}>
        <button
          type="button"
          onClick={() => show(id)}
          className="block max-w-full truncate text-left hover:underline"
        >
          {type}
        </button>
        <span className="block truncate text-xs text-muted" title={recipient ?? undefined}>
          {recipient}
        </span>
      </td>
      <td className={`${CELL} w-2/5 max-w-0 max-md:hidden`}>
        {last === null ? (
          <span className="text-muted">Not tried yet</span>
        ) : (
          <span className="block truncate font-mono text-xs" title={firstLine(last)}>
            {firstLine(last) || '–'}
          </span>
        )}
      </td>
      <td className={NUMBER}>{last === null ? '–' : inWords(last.latency_ms / 1000)}</td>
      <td className={NUMBER}>{attempts}</td>
      <td className={`${CELL} text-right tabular-nums whitespace-nowrap max-sm:hidden`}>
        <Next delivery={delivery} isSuspended={props.isSuspended} />
      </td>
    </tr>
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

function Check(props: { label: string; isOn: boolean; onChange: () => void }): ReactNode {
  return (
    <label className="-m-2 inline-flex p-2 align-middle">
      <input
        type="checkbox"
        aria-label={props.label}
        checked={props.isOn}
        onChange={props.onChange}
        className="size-4 accent-accent"
      />
    </label>
  );
}
