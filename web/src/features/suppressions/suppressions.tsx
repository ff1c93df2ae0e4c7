/** The suppression list: search, add, remove, import and export. */
import { useNavigate, useSearch } from '@tanstack/react-router';
import { Ban, Plus, SearchX, Upload } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Suppression, SuppressionImport } from '../../../../sdk/src/api.ts';
import { call } from '../../api/client.ts';
import { useList, useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed, useMay } from '../../ui/allowed.tsx';
import { forEachChosen, useSelection } from '../../ui/bulk.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { FileField } from '../../ui/file-field.tsx';
import { Find } from '../../ui/find.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { RecipientLink } from '../../ui/recipient-link.tsx';
import { Empty } from '../../ui/states.tsx';
import { SuppressionRemoval } from '../../ui/suppression-removal.tsx';
import { SuppressionMark } from '../../ui/suppression-mark.tsx';
import { ListTable } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useOfferUndo } from '../../ui/undo.tsx';
import { SuppressionExport } from './suppression-export.tsx';

const ROUTE = '/$project/$environment/suppressions';

type Open =
  | { kind: 'add' }
  | { kind: 'import' }
  | { kind: 'remove'; row: Suppression }
  | { kind: 'remove_many' }
  | null;

function ReasonMark({ row: { reason, simulated } }: { row: Suppression }): ReactNode {
  return (
    <span className="flex flex-wrap items-baseline gap-x-2">
      <SuppressionMark reason={reason} />
      {simulated && (
        <span className="text-xs text-muted" title="An address of the simulator for test mail">
          simulated<span className="max-md:hidden">, still receives mail</span>
        </span>
      )}
    </span>
  );
}

export function SuppressionsScreen(): ReactNode {
  const may = useMay();
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  const { address } = useSearch({ from: ROUTE });
  const list = useList('listSuppressions', { query: { address }, cursor: (row) => row.address });
  const selection = useSelection({
    rows: list.rows,
    keyOf: (row) => row.address,
    nameOf: (row) => row.address,
    isHidden: !may('deleteSuppression'),
  });
  return (
    <>
      <SuppressionsHead onOpen={setOpen} />
      <PageBody>
        <Card
          wide={
            <>
              <FindAddress address={address ?? ''} />
              <SuppressionTable {...{ address, list, selection }} onOpen={setOpen} />
            </>
          }
        />
      </PageBody>
      <Dialog isOpen={open?.kind === 'add'} onClose={close} title="Add an address">
        <AddForm onDone={close} />
      </Dialog>
      <Dialog isOpen={open?.kind === 'import'} onClose={close} title="Import addresses">
        <ImportForm />
      </Dialog>
      <Dialog
        isOpen={open?.kind === 'remove_many'}
        onClose={close}
        title={`Remove ${selection.chosen.length} addresses?`}
      >
        <RemoveManyForm
          rows={selection.chosen}
          onDone={() => {
            selection.clear();
            close();
          }}
        />
      </Dialog>
      <Dialog isOpen={open?.kind === 'remove'} onClose={close} title="Remove this address?">
        {open?.kind === 'remove' && <RemoveForm row={open.row} onDone={close} />}
      </Dialog>
    </>
  );
}

type OnOpen = (open: Open) => void;

function SuppressionsHead({ onOpen }: { onOpen: OnOpen }): ReactNode {
  return (
    <PageHead
      title="Suppressions"
      about="This project sends no emails to these addresses."
      primary={
        <Allowed to="createSuppression">
          <Button look="primary" onClick={() => onOpen({ kind: 'add' })}>
            <Plus size={15} aria-hidden />
            Add an address
          </Button>
        </Allowed>
      }
      secondary={
        <Allowed to="importSuppressions">
          <Button onClick={() => onOpen({ kind: 'import' })}>
            <Upload size={14} aria-hidden />
            Import
          </Button>
        </Allowed>
      }
    >
      <Allowed to="exportSuppressions">
        <SuppressionExport />
      </Allowed>
    </PageHead>
  );
}

function SuppressionTable(props: {
  address: string | undefined;
  list: ReturnType<typeof useList<'listSuppressions'>>;
  selection: ReturnType<typeof useSelection<Suppression>>;
  onOpen: OnOpen;
}): ReactNode {
  const { address, list, selection, onOpen } = props;
  const may = useMay();
  return (
    <>
      {selection.bar(
        <Button size="small" onClick={() => onOpen({ kind: 'remove_many' })}>
          Remove {selection.chosen.length}
        </Button>,
      )}
      <ListTable
        label="Suppressions"
        list={list}
        isChosen={(row) => selection.chosen.includes(row)}
        keyOf={(row) => row.address}
        columns={[
          selection.column,
          {
            title: 'Address',
            cell: (row) => <RecipientLink address={row.address} />,
          },
          { title: 'Reason', isPlain: true, cell: (row) => <ReasonMark row={row} /> },
          { title: 'Since', isNumber: true, cell: ({ created_at: at }) => <Time at={at} /> },
          {
            title: '',
            isNumber: true,
            isHidden: !may('deleteSuppression'),
            cell: (row) => (
              <Button
                size="small"
                aria-label={`Remove ${row.address}`}
                onClick={() => onOpen({ kind: 'remove', row })}
              >
                Remove
              </Button>
            ),
          },
        ]}
        empty={
          <Empty
            title={address ? 'This address is not suppressed' : 'No suppressed addresses'}
            icon={address ? SearchX : Ban}
          >
            <p>Hard bounces, complaints and unsubscribes are added automatically.</p>
          </Empty>
        }
      />
    </>
  );
}

/** Removes several at once, and takes it back together. */
function RemoveManyForm(props: { rows: readonly Suppression[]; onDone: () => void }): ReactNode {
  const { rows, onDone } = props;
  const offerUndo = useOfferUndo();
  const api = useApi();
  const reload = useReload();
  const done = (): void => {
    onDone();
    offerUndo({
      text: `${rows.length} addresses can receive emails again.`,
      undo: async () => {
        await forEachChosen(rows, ({ address, reason, expires_at }) =>
          api.call('createSuppression', { body: { address, reason, expires_at } }),
        );
        await reload('listSuppressions');
      },
    });
  };
  return (
    <SuppressionRemoval
      action={(count) => `Remove ${count}`}
      rows={rows}
      onSome={() => reload('listSuppressions')}
      onDone={done}
    >
      {(left) => (
        <>
          <p>
            They can receive emails again. Addresses that still do not exist bounce again, which
            harms your reputation.
          </p>
          <ul
            aria-label="Selected addresses"
            tabIndex={0}
            className="max-h-40 overflow-auto rounded-md border border-line p-2"
          >
            {left.map(({ address }) => (
              <li key={address} className="font-mono text-xs break-all">
                {address}
              </li>
            ))}
          </ul>
        </>
      )}
    </SuppressionRemoval>
  );
}

/** The address of the page has the address that is searched. */
function FindAddress({ address }: { address: string }): ReactNode {
  const navigate = useNavigate();
  return (
    <Find
      label="Search suppressions"
      q={address}
      onFind={(text) => {
        const wanted = text.trim();
        void navigate({ to: '.', params: true, search: wanted ? { address: wanted } : {} });
      }}
    />
  );
}

function AddForm({ onDone }: { onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const add = async (form: FormData): Promise<void> => {
    await api.call('createSuppression', { body: { address: textOf(form, 'address') } });
    await reload('listSuppressions');
    onDone();
  };
  return (
    <ActionForm action="Add" send={add}>
      <Field
        label="Email address"
        name="address"
        type="email"
        placeholder="jo@example.com"
        hint="No email will be sent to it."
        autoComplete="off"
        required
      />
    </ActionForm>
  );
}

function RemoveForm({ row, onDone }: { row: Suppression; onDone: () => void }): ReactNode {
  const { address, reason, expires_at } = row;
  const offerUndo = useOfferUndo();
  const api = useApi();
  const reload = useReload();
  const done = async (): Promise<void> => {
    await reload('listSuppressions');
    onDone();
    offerUndo({
      text: `${address} can receive emails again.`,
      undo: async () => {
        await api.call('createSuppression', { body: { address, reason, expires_at } });
        await reload('listSuppressions');
      },
    });
  };
  return (
    <SuppressionRemoval action="Remove" rows={[row]} onDone={done}>
      <p>
        <span className="font-mono text-xs break-all">{address}</span> can receive emails again. If
        the mailbox still does not exist, another bounce harms your reputation.
      </p>
    </SuppressionRemoval>
  );
}

function ImportForm(): ReactNode {
  const { scope } = useApi();
  const reload = useReload();
  const [result, setResult] = useState<SuppressionImport | null>(null);
  const send = async (form: FormData): Promise<void> => {
    const file = form.get('file');
    if (!(file instanceof File)) return;
    setResult(null);
    const isJson = file.name.endsWith('.json');
    const headers = { 'content-type': isJson ? 'application/json' : 'text/csv' };
    setResult(await call('importSuppressions', { scope, body: await file.text(), headers }));
    await reload('listSuppressions');
  };
  return (
    <ActionForm action="Import" send={send}>
      <p>A CSV file with a column of addresses, or an export from another service.</p>
      <FileField label="File" name="file" accept=".csv,.json,.txt" required />
      {result && (
        <div role="status" className="space-y-2">
          <p>
            {result.added} added, {result.already_there} already listed, {result.rejected} rejected.
          </p>
          <Report result={result} />
        </div>
      )}
    </ActionForm>
  );
}

/** The first rejected lines, each with the reason. */
function Report({ result }: { result: SuppressionImport }): ReactNode {
  const { errors, rejected, left_out: leftOut } = result;
  return (
    <>
      {leftOut.map(({ because, message }) => (
        <p key={because} className="text-sm">
          {message}
        </p>
      ))}
      {errors.length > 0 && (
        <ul
          aria-label="Rejected lines"
          tabIndex={0}
          className="max-h-48 space-y-1 overflow-auto rounded-md border border-line bg-sunken p-2 text-sm"
        >
          {errors.map(({ line, item, message }) => (
            <li key={`${line} ${item}`} className="break-words">
              <span className="text-muted tabular-nums">
                {item === null ? `Line ${line}` : `Entry ${item}`}:
              </span>{' '}
              {message}
            </li>
          ))}
          {rejected > errors.length && <li className="text-muted">and more</li>}
        </ul>
      )}
    </>
  );
}
