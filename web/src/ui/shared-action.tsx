/**
 * One click on objects that others may change at the same time, such as a removal. When an object has changed since
 * the member saw it, nothing happens to it yet: the form shows who changed what, and offers to go on.
 */
import { type ReactNode, useState } from 'react';
import { ApiError } from '../api/client.ts';
import { type AuditQuery, findLastChange, type LastChange } from '../api/last-change.ts';
import { useApi } from '../api/scope.ts';
import { serverNowMs } from '../lib/clock.ts';
import { ActionForm } from './action-form.tsx';
import { forEachChosen } from './bulk.tsx';
import {
  changeIfSame,
  Differences,
  differencesOf,
  type Fields,
  type IfMatch,
  Meanwhile,
  MeanwhileBy,
} from './shared-change.tsx';

const NOT_FOUND = 404;

/** `stored` differs from `seen` once somebody else has changed the object. */
type Open<Object> = { seen: Object; stored: Object; last: LastChange | null };

export type SharedActionProps<Object extends { etag: string }> = {
  /** Its button, for as many objects as are left. */
  action: string | ((count: number) => string);
  look?: 'primary' | 'danger';
  objects: readonly Object[];
  /** Tells several objects apart. */
  nameOf?: (object: Object) => string;
  /** The entries of an object in the audit log. */
  of: (object: Object) => AuditQuery;
  /** Shows what has changed: by fields, or in its own way. */
  changes: Fields<Object> | ((before: Object, after: Object) => ReactNode);
  act: (object: Object, headers: IfMatch, form: FormData) => Promise<unknown>;
  /** Reads an object again; undefined when it is gone. */
  read: (object: Object) => Promise<Object | undefined>;
  /** Whether somebody else has done the same. */
  isDone?: (object: Object) => boolean;
  /** After some were done, also when others failed. */
  onSome?: () => Promise<void>;
  onDone: () => Promise<void> | void;
  /** Gets the objects that are left, as they are stored. */
  children: ReactNode | ((objects: readonly Object[]) => ReactNode);
};

export function SharedAction<Object extends { etag: string }>(
  props: SharedActionProps<Object>,
): ReactNode {
  const { action, look = 'primary', read, isDone, onDone, children } = props;
  const api = useApi();
  const [seenAtMs] = useState(serverNowMs);
  const [open, setOpen] = useState<readonly Open<Object>[]>(() =>
    props.objects.map((object) => ({ seen: object, stored: object, last: null })),
  );
  const changed = open.filter(({ seen, stored }) => stored !== seen);
  const send = async (form: FormData): Promise<void> => {
    const left = new Map(open.map((one) => [one, one]));
    const actOn = async (one: Open<Object>): Promise<void> => {
      const done = await changeIfSame(one.stored.etag, (headers) =>
        props.act(one.stored, headers, form),
      ).catch((error: unknown) => {
        // Somebody else has removed it: reading it again decides whether that is all right.
        if (isMissing(error)) return null;
        throw error;
      });
      const stored = done === null ? await read(one.stored) : undefined;
      if (stored === undefined || isDone?.(stored)) left.delete(one);
      else left.set(one, { ...one, stored, last: await findLastChange(api, props.of(stored)) });
    };
    try {
      await forEachChosen(open, actOn);
    } finally {
      setOpen([...left.values()]);
      if (left.size < open.length) await props.onSome?.();
    }
    if (left.size === 0) await onDone();
  };
  const label = typeof action === 'string' ? action : action(open.length);
  return (
    <ActionForm action={changed.length === 0 ? label : `${label} anyway`} look={look} send={send}>
      {typeof children === 'function' ? children(open.map(({ stored }) => stored)) : children}
      {changed.length > 0 && (
        <Meanwhile of={open}>
          {changed.map((one, index) => (
            <Changed key={index} {...props} one={one} seenAtMs={seenAtMs} />
          ))}
        </Meanwhile>
      )}
    </ActionForm>
  );
}

const isMissing = (error: unknown): boolean =>
  error instanceof ApiError && error.status === NOT_FOUND;

function Changed<Object extends { etag: string }>(
  props: Pick<SharedActionProps<Object>, 'changes' | 'nameOf'> & {
    one: Open<Object>;
    seenAtMs: number;
  },
): ReactNode {
  const { changes, nameOf, one, seenAtMs } = props;
  const { seen, stored, last } = one;
  return (
    <>
      <MeanwhileBy last={last} seenAtMs={seenAtMs} {...(nameOf && { name: nameOf(stored) })}>
        Nothing has been done to it yet.
      </MeanwhileBy>
      {typeof changes === 'function' ? (
        changes(seen, stored)
      ) : (
        <Differences
          label="What has changed"
          titles={['Before', 'Stored now']}
          rows={differencesOf(changes, seen, stored)}
        />
      )}
    </>
  );
}
