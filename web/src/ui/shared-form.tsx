/**
 * A form for an object that others may change at the same time. It overwrites nothing that its member has not seen:
 * when a field of the form has changed meanwhile, it shows who changed it, and both versions, and keeps what was typed.
 * A field that the member left alone keeps what the other has stored.
 */
import { type ReactNode, useState } from 'react';
import { type AuditQuery, findLastChange, type LastChange } from '../api/last-change.ts';
import { useApi } from '../api/scope.ts';
import { serverNowMs } from '../lib/clock.ts';
import { ActionForm } from './action-form.tsx';
import {
  changeIfSame,
  Differences,
  differencesOf,
  type Fields,
  GONE,
  type IfMatch,
  labelOf,
  Meanwhile,
  MeanwhileBy,
  namesOf,
  wordsFor,
} from './shared-change.tsx';

type Shared = { etag: string };

/** The values that somebody else has stored, and those that the form would store instead. */
type Conflict<Object, Body> = { stored: Object; mine: Body; last: LastChange | null };

export function SharedForm<Object extends Shared, Body extends Partial<Object>, Result>(props: {
  action: string;
  object: Object;
  /** Its entries in the audit log. */
  of: AuditQuery;
  /** Those that the form changes. */
  fields: Fields<Pick<Object, keyof Object & keyof Body>>;
  bodyOf: (form: FormData) => Body;
  change: (body: Body, headers: IfMatch) => Promise<Result>;
  /** Reads the object again; undefined when it is gone. */
  read: () => Promise<Object | undefined>;
  onDone: (body: Body, result: Result) => Promise<void>;
  /** Gets the object as it was when the form was opened, because the page may read it again meanwhile. */
  children: (object: Object) => ReactNode;
}): ReactNode {
  const { action, fields, bodyOf, change, read, onDone, children } = props;
  const api = useApi();
  const [seen] = useState(props.object);
  const [seenAtMs] = useState(serverNowMs);
  const [conflict, setConflict] = useState<Conflict<Object, Body> | null>(null);
  const send = async (form: FormData): Promise<void> => {
    const mine = bodyOf(form);
    const save = async (known: Object, canRepeat: boolean): Promise<void> => {
      const body = known === seen ? mine : merged(fields, { mine, seen, known });
      const saved = await changeIfSame(known.etag, (headers) => change(body, headers));
      if (saved !== null) return onDone(body, saved.done);
      const stored = await read();
      if (stored === undefined) throw new Error(GONE);
      // The other has changed what this form does not.
      if (canRepeat && differencesOf(fields, known, stored).length === 0)
        return save(stored, false);
      setConflict({ stored, mine, last: await findLastChange(api, props.of) });
    };
    await save(conflict?.stored ?? seen, true);
  };
  return (
    <ActionForm action={conflict === null ? action : 'Save mine'} send={send}>
      {children(seen)}
      {conflict !== null && <BothVersions {...{ conflict, fields, seen, seenAtMs }} />}
    </ActionForm>
  );
}

/** Returns what is typed, and in fields that the member left alone what the other has stored. */
function merged<Object extends Shared, Body extends Partial<Object>>(
  fields: Fields<Pick<Object, keyof Object & keyof Body>>,
  { mine, seen, known }: { mine: Body; seen: Object; known: Object },
): Body {
  const kept = namesOf(fields)
    .filter((name) => name in mine && isUntouched(fields, { mine, seen, name }))
    .map((name) => [name, known[name]] as const);
  return { ...mine, ...Object.fromEntries(kept) };
}

function isUntouched<Object, Body extends Partial<Object>>(
  fields: Fields<Pick<Object, keyof Object & keyof Body>>,
  { mine, seen, name }: { mine: Body; seen: Object; name: keyof Object & keyof Body & string },
): boolean {
  return wordsFor(fields, mine, name) === wordsFor(fields, seen, name);
}

function BothVersions<Object extends Shared, Body extends Partial<Object>>(props: {
  conflict: Conflict<Object, Body>;
  fields: Fields<Pick<Object, keyof Object & keyof Body>>;
  seen: Object;
  seenAtMs: number;
}): ReactNode {
  const { conflict, fields, seen, seenAtMs } = props;
  const { stored, mine, last } = conflict;
  const untouched = new Set(
    namesOf(fields)
      .filter((name) => name in mine && isUntouched(fields, { mine, seen, name }))
      .map((name) => labelOf(fields, name)),
  );
  const rows = differencesOf(fields, stored, mine).map((row) =>
    untouched.has(row.label) ? { ...row, after: 'unchanged by you' } : row,
  );
  return (
    <Meanwhile of={conflict}>
      <MeanwhileBy last={last} seenAtMs={seenAtMs}>
        {rows.length === 0 ? 'It is what you want to save.' : 'Compare before you save yours.'}
      </MeanwhileBy>
      <Differences label="Both versions" titles={['Stored now', 'Yours']} rows={rows} />
    </Meanwhile>
  );
}
