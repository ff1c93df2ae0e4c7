/** Hold, release, retry and drop queued emails, each after a confirmation. A drop can be undone for a minute. */
import { Hand, Play, RotateCw, Trash2 } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import type { Queue, QueueChange, QueueDrop, QueueSelection } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { type Api, useApi } from '../../api/scope.ts';
import { recipients } from '../../lib/numbers.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed, useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { chosenOf, Field, textOf } from '../../ui/field.tsx';
import type { MoreItems } from '../../ui/more-menu.tsx';
import { Select } from '../../ui/select.tsx';
import { sentenceOf } from '../../ui/states.tsx';
import type { QueueScopeName } from './use-queue.ts';

const CHANGES = {
  retry: {
    icon: RotateCw,
    label: 'Retry now',
    asks: 'Retry queued emails now?',
    done: 'due now',
    operation: 'retryQueue',
    says: 'Queued emails are due immediately, except those on hold. Suspended providers stay suspended.',
  },
  hold: {
    icon: Hand,
    label: 'Hold',
    asks: 'Put queued emails on hold?',
    done: 'put on hold',
    operation: 'holdQueue',
    says: 'They are not attempted until you release them, and fail when they expire. Emails accepted later are not affected.',
  },
  release: {
    icon: Play,
    label: 'Release',
    asks: 'Release emails on hold?',
    done: 'released',
    operation: 'releaseQueue',
    says: 'Emails on hold are attempted again.',
  },
  drop: {
    icon: Trash2,
    label: 'Drop',
    asks: 'Drop queued emails?',
    done: 'to be dropped in one minute',
    operation: 'dropQueue',
    says: 'They are put on hold now and canceled in one minute, with events and webhooks. Until then you can undo this.',
  },
} as const;
type Change = keyof typeof CHANGES;
const ORDER: readonly Change[] = ['retry', 'hold', 'release', 'drop'];

type Asked = { change: Change; provider: string | undefined };

export type QueueChanges = {
  /** Asks for the change of the emails queued for a provider; without one, of all in the scope. */
  ask: (change: Change, provider?: string) => void;
  items: (provider?: string) => MoreItems;
  /** The open question, and what was done. */
  view: ReactNode;
};

/** The changes that the member may make, or null. */
export function useQueueChanges(scope: QueueScopeName): QueueChanges | null {
  const may = useMay();
  const [asked, setAsked] = useState<Asked | null>(null);
  const [said, setSaid] = useState('');
  if (!may('holdQueue')) return null;
  const ask = (change: Change, provider?: string): void => setAsked({ change, provider });
  const done = (text: string): void => {
    setSaid(text);
    setAsked(null);
  };
  return {
    ask,
    items: (provider) =>
      ORDER.map((change) => ({
        label: CHANGES[change].label,
        icon: CHANGES[change].icon,
        isDestructive: change === 'drop',
        onChoose: () => ask(change, provider),
      })),
    view: (
      <>
        <p role="status" className="px-(--page-x) pb-4 text-sm text-muted empty:hidden">
          {said}
        </p>
        <Dialog
          isOpen={asked !== null}
          onClose={() => setAsked(null)}
          title={asked === null ? '' : CHANGES[asked.change].asks}
        >
          {asked !== null && (
            <ChangeForm
              change={asked.change}
              scope={scope}
              onDone={done}
              provider={asked.provider}
            />
          )}
        </Dialog>
      </>
    ),
  };
}

/** The one change that helps, as a button: what is on hold is released, what waits is tried now. */
export function HelpfulChange(props: {
  row: Pick<Queue['providers'][number], 'provider' | 'held' | 'limit'>;
  changes: QueueChanges;
  size?: 'small' | 'normal';
}): ReactNode {
  const { row, changes, size = 'small' } = props;
  const change = row.held > 0 ? 'release' : row.limit?.name === 'retry' ? 'retry' : 'hold';
  return (
    <Button
      size={size}
      aria-label={size === 'small' ? `${CHANGES[change].label}: ${row.provider}` : undefined}
      onClick={() => changes.ask(change, row.provider)}
    >
      {CHANGES[change].label}
    </Button>
  );
}

const OF_SCOPE: Readonly<Record<QueueScopeName, string>> = {
  project: 'Applies to this project and environment only.',
  organization: 'Applies to all projects, in both environments.',
};

/** The kinds of selection, each with the label of its field. */
const KINDS = [
  ['domain', 'Recipients at a domain', 'Domain'],
  ['provider', 'Emails to a provider', 'Provider'],
  ['email_id', 'Recipients of one email', 'Email ID'],
  ['all', 'Everything on this page', null],
] as const;
const CHOICES = KINDS.map(([name, text]) => [name, text] as const);

function ChangeForm(props: {
  change: Change;
  provider: string | undefined;
  scope: QueueScopeName;
  onDone: (said: string) => void;
}): ReactNode {
  const { change, provider, scope, onDone } = props;
  const api = useApi();
  const reload = useReload();
  const { label, says } = CHANGES[change];
  const send = async (form: FormData): Promise<void> => {
    const target = provider === undefined ? targetOf(form) : { provider };
    const { found, changed, busy } = await makeChange(api, change, { ...target, scope });
    await reload('getQueue');
    const rest = busy === 0 ? '' : ` ${recipients(busy)} in delivery not changed.`;
    const nothing = found === 0 ? 'No queued email matches.' : null;
    onDone(nothing ?? `${recipients(changed)} ${CHANGES[change].done}.${rest}`);
  };
  return (
    <ActionForm action={label} look={change === 'drop' ? 'danger' : 'primary'} send={send}>
      {provider === undefined ? (
        <TargetFields />
      ) : (
        <p>
          Emails queued for <span className="font-mono text-xs break-all">{provider}</span>.
        </p>
      )}
      <p>{OF_SCOPE[scope]}</p>
      <p className="text-muted">{says}</p>
    </ActionForm>
  );
}

function TargetFields(): ReactNode {
  const [kind, setKind] = useState<string>(KINDS[0][0]);
  const label = KINDS.find(([name]) => name === kind)?.[2] ?? null;
  return (
    <>
      <Select label="Select by" name="kind" options={CHOICES} onChange={setKind} />
      {label !== null && <Field key={kind} label={label} name={kind} autoComplete="off" required />}
    </>
  );
}

function targetOf(form: FormData): QueueSelection {
  const kind = chosenOf(form, 'kind', CHOICES);
  return kind === 'all' ? { all: true } : { [kind]: textOf(form, kind).trim() };
}

type Sum = Pick<QueueChange, 'found' | 'busy' | 'changed'>;

/** A long queue is changed by several requests. */
async function makeChange(api: Api, change: Change, selection: QueueSelection): Promise<Sum> {
  const { operation } = CHANGES[change];
  if (operation === 'dropQueue') return api.call(operation, { body: selection });
  const sum = { found: 0, busy: 0, changed: 0 };
  let from: string | undefined;
  do {
    const part: QueueChange = await api.call(operation, { body: { ...selection, from } });
    sum.found += part.found;
    sum.busy += part.busy;
    sum.changed += part.changed;
    from = part.next ?? undefined;
  } while (from !== undefined);
  return sum;
}

/** Drops that can still be undone, by whomever and in whichever tab they were started. */
export function Drops({ drops }: { drops: Queue['drops'] }): ReactNode {
  if (drops.length === 0) return null;
  return (
    <ul
      aria-label="Drops"
      className="sticky bottom-0 z-30 mt-auto divide-y divide-line border-t border-line bg-raised"
    >
      {drops.map((drop) => (
        <Undo key={drop.id} drop={drop} />
      ))}
    </ul>
  );
}

function Undo({ drop }: { drop: QueueDrop }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [failure, setFailure] = useState<string | null>(null);
  const leftS = useSecondsUntil(drop.drops_at);
  const undo = async (): Promise<void> => {
    try {
      await api.call('undoQueueDrop', { path: { id: drop.id } });
    } catch (error) {
      setFailure(sentenceOf(error));
    }
    await reload('getQueue');
  };
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 px-(--page-x) py-2.5 text-sm">
      <span className="min-w-0 grow">
        {recipients(drop.changed)}{' '}
        {leftS > 0 ? `will be dropped in ${leftS} s` : 'are being dropped'}{' '}
        <span className="font-mono text-xs break-all text-muted">{drop.selection}</span>
      </span>
      {failure !== null && (
        <span role="alert" className="text-bad">
          {failure}
        </span>
      )}
      {leftS > 0 && (
        <Allowed to="undoQueueDrop">
          <Button onClick={() => void undo()}>Undo</Button>
        </Allowed>
      )}
    </li>
  );
}

const SECOND_MS = 1_000;

function useSecondsUntil(at: string): number {
  const left = (): number => Math.max(0, Math.ceil((Date.parse(at) - Date.now()) / SECOND_MS));
  const [seconds, setSeconds] = useState(left);
  useEffect(() => {
    setSeconds(left());
    const timer = setInterval(() => setSeconds(left()), SECOND_MS);
    return () => clearInterval(timer);
  }, [at]);
  return seconds;
}
