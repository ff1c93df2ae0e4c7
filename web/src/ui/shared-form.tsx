/**
 * A form for an object that others may change at the same time. It overwrites nothing that its member has not seen:
 * when the object has changed meanwhile, it shows who changed it, and both versions, and keeps what was typed.
 */
import { type ReactNode, useState } from 'react';
import { ApiError } from '../api/client.ts';
import { findLastChange, type LastChange } from '../api/last-change.ts';
import { useApi } from '../api/scope.ts';
import { ActionForm } from './action-form.tsx';
import { Table } from './table.tsx';
import { Time } from './time.tsx';

type Shared = { id: string; etag: string };
export type IfMatch = { 'if-match': string };

/** The values that somebody else has stored, and those that the form would store instead. */
type Conflict<Object, Body> = { stored: Object; mine: Body; last: LastChange | null };

export function SharedForm<Object extends Shared, Body extends Partial<Object>, Result>(props: {
  action: string;
  /** As the form shows it. */
  object: Object;
  /** The words for the fields that the form changes. */
  labels: Partial<Record<keyof Body & string, string>>;
  /** The words for a value, where it is not a word itself. */
  wordsOf?: (value: unknown) => string;
  bodyOf: (form: FormData) => Body;
  change: (body: Body, headers: IfMatch) => Promise<Result>;
  /** Reads the object again; undefined when it is gone. */
  read: () => Promise<Object | undefined>;
  onDone: (body: Body, result: Result) => Promise<void>;
  children: ReactNode;
}): ReactNode {
  const { action, object, labels, wordsOf = textOf, bodyOf, change, read, onDone } = props;
  const api = useApi();
  const [conflict, setConflict] = useState<Conflict<Object, Body> | null>(null);
  const send = async (form: FormData): Promise<void> => {
    const mine = bodyOf(form);
    let result: Result;
    try {
      result = await change(mine, { 'if-match': (conflict?.stored ?? object).etag });
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'precondition_failed')) throw error;
      const stored = await read();
      if (stored === undefined) throw error;
      setConflict({ stored, mine, last: await findLastChange(api, stored.id) });
      return;
    }
    await onDone(mine, result);
  };
  return (
    <ActionForm action={conflict === null ? action : 'Save mine'} send={send}>
      {props.children}
      {conflict !== null && <BothVersions conflict={conflict} labels={labels} wordsOf={wordsOf} />}
    </ActionForm>
  );
}

function BothVersions<Object, Body>(props: {
  conflict: Conflict<Object, Body>;
  labels: Partial<Record<keyof Body & string, string>>;
  wordsOf: (value: unknown) => string;
}): ReactNode {
  const { stored, mine, last } = props.conflict;
  const rows = Object.entries<string | undefined>(props.labels).flatMap(([name, label = name]) => {
    const [theirs, own] = [
      props.wordsOf(valueOf(stored, name)),
      props.wordsOf(valueOf(mine, name)),
    ];
    return theirs === own ? [] : [{ label, theirs, own }];
  });
  return (
    <section role="alert" aria-label="Changed meanwhile" className="space-y-2">
      <p className="text-sm text-wait">
        Changed meanwhile{last && ` by ${last.by}`}
        {last && (
          <>
            , <Time at={last.at} />
          </>
        )}
        . {rows.length === 0 ? 'It is what you want to save.' : 'Compare before you save yours.'}
      </p>
      {rows.length > 0 && (
        <Table
          label="Both versions"
          rows={rows}
          keyOf={({ label }) => label}
          columns={[
            { title: 'Field', cell: ({ label }) => label },
            { title: 'Stored now', cell: ({ theirs }) => theirs },
            { title: 'Yours', cell: ({ own }) => own },
          ]}
        />
      )}
    </section>
  );
}

const valueOf = (object: unknown, name: string): unknown =>
  (object as Record<string, unknown>)[name];

function textOf(value: unknown): string {
  if (value == null || value === '') return 'none';
  if (Array.isArray(value)) return value.map(String).toSorted().join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
