/**
 * Changes of objects that others change too. A change is made only if the object is as its member saw it. Otherwise
 * the member sees who changed it meanwhile and what it is now, and decides: in a SharedForm, which has typed values, or
 * in a SharedAction, which is one click.
 */
import { type ReactNode, useEffect, useRef } from 'react';
import { ApiError } from '../api/client.ts';
import type { LastChange } from '../api/last-change.ts';
import { Table } from './table.tsx';
import { Time } from './time.tsx';

/** Only `changeIfSame` makes it, so that each change has an answer for the case that somebody else was first. */
export type IfMatch = { 'if-match': string };

/** The words for the fields of an object, and for their values where these are no words themselves. */
export type Fields<Object> = {
  readonly [Name in keyof Object & string]?:
    | string
    | readonly [label: string, wordsOf: (value: Object[Name]) => string];
};

/** @returns null when the object is not the one with this tag any more; nothing is changed then */
export async function changeIfSame<Result>(
  etag: string,
  change: (headers: IfMatch) => Promise<Result>,
): Promise<{ done: Result } | null> {
  try {
    return { done: await change({ 'if-match': etag }) };
  } catch (error) {
    if (error instanceof ApiError && error.code === 'precondition_failed') return null;
    throw error;
  }
}

/**
 * Undoes a change, unless the object was changed again since.
 * @param reload shows what is stored, in both cases
 */
export async function undoIfSame(
  etag: string,
  undo: (headers: IfMatch) => Promise<unknown>,
  reload: () => Promise<void>,
): Promise<void> {
  const undone = await changeIfSame(etag, undo);
  await reload();
  if (undone !== null) return;
  throw new Error('This was changed again meanwhile, so the change was not undone.');
}

export const GONE = 'Somebody else has removed this meanwhile.';

type Row = { label: string; before: string; after: string };

/** Returns the fields in which two objects differ, in words. A field that one of them does not have is left out. */
export function differencesOf<Object>(
  fields: Fields<Object>,
  before: Partial<Object>,
  after: Partial<Object>,
): Row[] {
  return namesOf(fields)
    .filter((name) => name in (before as object) && name in (after as object))
    .map((name) => ({
      label: labelOf(fields, name),
      before: wordsFor(fields, before, name),
      after: wordsFor(fields, after, name),
    }))
    .filter((row) => row.before !== row.after);
}

export const namesOf = <Object,>(fields: Fields<Object>): (keyof Object & string)[] =>
  Object.keys(fields) as (keyof Object & string)[];

export function labelOf<Object>(fields: Fields<Object>, name: keyof Object & string): string {
  const field = fields[name];
  return typeof field === 'string' ? field : (field?.[0] ?? name);
}

export function wordsFor<Object>(
  fields: Fields<Object>,
  of: Partial<Object>,
  name: keyof Object & string,
): string {
  const field = fields[name];
  const value = of[name];
  if (field === undefined || typeof field === 'string') return textOf(value);
  return field[1](value as Object[typeof name]);
}

function textOf(value: unknown): string {
  if (value == null || value === '') return 'none';
  if (Array.isArray(value)) return value.map(String).toSorted().join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/**
 * Takes the focus from the button, which the next Enter would press before anything was read.
 * @param props.of changes when another version is shown
 */
export function Meanwhile({ of, children }: { of: unknown; children: ReactNode }): ReactNode {
  const section = useRef<HTMLElement>(null);
  useEffect(() => section.current?.focus(), [of]);
  return (
    <section
      ref={section}
      tabIndex={-1}
      role="alert"
      aria-label="Changed meanwhile"
      className="space-y-2 outline-none"
    >
      {children}
    </section>
  );
}

/** The clocks of two machines differ, and the service writes whole seconds. */
const TOLERANCE_MS = 2_000;

/** @param props.seenAtMs when the member began. An older entry of the audit log need not be about this change. */
export function MeanwhileBy(props: {
  name?: string;
  last: LastChange | null;
  seenAtMs?: number;
  children?: ReactNode;
}): ReactNode {
  const { name, last, seenAtMs = Infinity, children } = props;
  const isSince = last !== null && Date.parse(last.at) >= seenAtMs - TOLERANCE_MS;
  const by = last && (
    <>
      by {last.by}, <Time at={last.at} />
    </>
  );
  return (
    <p className="text-sm break-words text-wait">
      {name !== undefined && <span className="font-medium">{name}: </span>}
      Changed meanwhile{isSince && <> {by}</>}.{' '}
      {last !== null && !isSince && <>Last change {by}. </>}
      {children}
    </p>
  );
}

/** @param props.titles of the two versions */
export function Differences(props: {
  label: string;
  titles: readonly [before: string, after: string];
  rows: readonly Row[];
}): ReactNode {
  const { label, titles, rows } = props;
  if (rows.length === 0) return null;
  return (
    <Table
      label={label}
      rows={rows}
      keyOf={({ label: field }) => field}
      columns={[
        { title: 'Field', cell: ({ label: field }) => field },
        { title: titles[0], cell: ({ before }) => <Value text={before} /> },
        { title: titles[1], cell: ({ after }) => <Value text={after} /> },
      ]}
    />
  );
}

function Value({ text }: { text: string }): ReactNode {
  return <span className="[overflow-wrap:anywhere]">{text}</span>;
}
