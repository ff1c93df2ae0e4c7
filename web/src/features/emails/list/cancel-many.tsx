/** Cancels the chosen scheduled emails or all matches of the search, after a question that names their number. */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { EmailCancellation, EmailSummary } from '../../../../../sdk/src/api.ts';
import { useReload } from '../../../api/list.ts';
import type { Body } from '../../../api/operations.ts';
import { type Api, useApi } from '../../../api/scope.ts';
import { serverNowMs } from '../../../lib/clock.ts';
import { ActionForm } from '../../../ui/action-form.tsx';
import type { Selection } from '../../../ui/bulk.tsx';
import { Button } from '../../../ui/button.tsx';
import { Dialog } from '../../../ui/dialog.tsx';

type Wanted = {
  count: number;
  /** There may be more than the count. */
  isCut: boolean;
  parts: Body<'cancelEmails'>[];
};

/** One request cancels so many by their ids. */
const SELECTED_MAX = 100;

export function CancelMany(props: { selection: Selection<EmailSummary>; q: string }): ReactNode {
  const { selection, q } = props;
  const api = useApi();
  const counts = useQuery(api.query('countEmails', { query: { q } })).data;
  const [wanted, setWanted] = useState<Wanted | null>(null);
  const count = counts?.statuses['scheduled'] ?? 0;
  const isCut = counts !== undefined && counts.scanned_until !== null;
  const askChosen = (): void => {
    const ids = selection.chosen.map(({ id }) => id);
    const parts = Array.from({ length: Math.ceil(ids.length / SELECTED_MAX) }, (_, index) => ({
      ids: ids.slice(index * SELECTED_MAX, (index + 1) * SELECTED_MAX),
    }));
    setWanted({ count: ids.length, isCut: false, parts });
  };
  const askAll = (): void => {
    // Emails that are scheduled after the question are not canceled by the answer.
    const hasEnd = /(^|\s)before:/i.test(q);
    const until = hasEnd ? {} : { created_before: new Date(serverNowMs()).toISOString() };
    setWanted({ count, isCut, parts: [{ q, ...until }] });
  };
  return (
    <>
      {count > 0 && (
        <p className="flex flex-wrap items-center gap-3 border-b border-line px-(--page-x) py-2 text-sm text-muted">
          <Button size="small" look="danger" onClick={askAll}>
            Cancel all {numberOf(count, isCut)}…
          </Button>
          or select some.
        </p>
      )}
      {selection.bar(
        <Button size="small" look="danger" onClick={askChosen}>
          Cancel {selection.chosen.length}…
        </Button>,
      )}
      <Dialog
        isOpen={wanted !== null}
        onClose={() => setWanted(null)}
        title={`Cancel ${wanted === null ? '' : emailsOf(wanted)}?`}
      >
        {wanted && (
          <CancelForm
            wanted={wanted}
            onDone={() => {
              setWanted(null);
              selection.clear();
            }}
          />
        )}
      </Dialog>
    </>
  );
}

function CancelForm({ wanted, onDone }: { wanted: Wanted; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [canceled, setCanceled] = useState<number | null>(null);
  const send = async (): Promise<void> => {
    setCanceled(0);
    try {
      await cancelAll(api, wanted.parts, setCanceled);
    } finally {
      await Promise.all([reload('listEmails'), reload('countEmails')]);
    }
    onDone();
  };
  return (
    <ActionForm action={`Cancel ${emailsOf(wanted)}`} look="danger" send={send}>
      <p>
        They are never sent. This cannot be undone. An email that a worker has begun to send
        meanwhile is not canceled.
      </p>
      <p role="status" className="text-sm tabular-nums empty:hidden">
        {canceled !== null &&
          `${canceled.toLocaleString()} of ${numberOf(wanted.count, wanted.isCut)} canceled`}
      </p>
    </ActionForm>
  );
}

/** Each request works for some seconds, and says where the next one continues. */
async function cancelAll(
  api: Api,
  parts: readonly Body<'cancelEmails'>[],
  report: (canceled: number) => void,
): Promise<void> {
  let sum = 0;
  for (const part of parts) {
    let from: string | null = null;
    do {
      const body: Body<'cancelEmails'> = from === null ? part : { ...part, from };
      const { canceled, next }: EmailCancellation = await api.call('cancelEmails', { body });
      sum += canceled;
      report(sum);
      from = next;
    } while (from !== null);
  }
}

const numberOf = (count: number, isCut: boolean): string =>
  `${count.toLocaleString()}${isCut ? ' or more' : ''}`;

const emailsOf = ({ count, isCut }: Wanted): string =>
  count === 1 && !isCut ? '1 scheduled email' : `${numberOf(count, isCut)} scheduled emails`;
