/** Exports the filtered list of emails as CSV or JSON. It is read page by page, up to ROWS_MAX. */
import { type ReactNode, useEffect, useRef, useState } from 'react';
import type { EmailSummary } from '../../../../../sdk/src/api.ts';
import { saveAs } from '../../../api/download.ts';
import { type EmailPage, nextAfter } from './email-pages.ts';
import { type Api, useApi } from '../../../api/scope.ts';
import { Button } from '../../../ui/button.tsx';
import { sentenceOf } from '../../../ui/states.tsx';
import type { ExportFormat } from '../../../ui/export-menu.tsx';
import { csvOf } from '../../../lib/csv.ts';

const PAGE = 100;
const ROWS_MAX = 10_000;

type State =
  | { kind: 'canceled' }
  | { kind: 'reads' | 'done' | 'cut'; rows: number }
  | { kind: 'failed'; message: string };

/** Begins to read when it opens. Closing it stops the export. */
export function EmailExport({ q, format }: { q: string; format: ExportFormat }): ReactNode {
  const api = useApi();
  const [state, setState] = useState<State>({ kind: 'reads', rows: 0 });
  const ended = useRef(new AbortController());
  const run = async (): Promise<void> => {
    const { signal } = (ended.current = new AbortController());
    setState({ kind: 'reads', rows: 0 });
    try {
      const read = await readAll(api, q, signal, (rows) => setState({ kind: 'reads', rows }));
      if (signal.aborted) return;
      saveAs(fileOf(read.emails, format), `emails.${format}`);
      setState({ kind: read.isCut ? 'cut' : 'done', rows: read.emails.length });
    } catch (error) {
      if (!signal.aborted) setState({ kind: 'failed', message: sentenceOf(error) });
    }
  };
  useEffect(() => {
    void run();
    return () => ended.current.abort();
  }, []);
  const stop = (): void => {
    ended.current.abort();
    setState({ kind: 'canceled' });
  };
  return (
    <div className="space-y-3 px-5 pt-1 pb-5">
      <p>
        {q === '' ? 'All emails' : 'The matching emails'}, newest first, at most{' '}
        {ROWS_MAX.toLocaleString()}.
      </p>
      {q !== '' && <p className="font-mono text-xs break-all">{q}</p>}
      <p role="status" className={`text-sm ${state.kind === 'failed' ? 'text-bad' : 'text-muted'}`}>
        {wordsOf(state)}
      </p>
      {state.kind === 'reads' && <Button onClick={stop}>Stop</Button>}
      {(state.kind === 'canceled' || state.kind === 'failed') && (
        <Button look="primary" onClick={() => void run()}>
          Start again
        </Button>
      )}
    </div>
  );
}

function fileOf(emails: readonly EmailSummary[], format: ExportFormat): Blob {
  return format === 'csv'
    ? new Blob([csvOf(COLUMNS, emails)], { type: 'text/csv' })
    : new Blob([`${JSON.stringify(emails, null, 2)}\n`], { type: 'application/json' });
}

function wordsOf(state: State): string {
  switch (state.kind) {
    case 'canceled':
      return 'Stopped. Nothing was saved.';
    case 'failed':
      return state.message;
    case 'reads':
      return `${state.rows.toLocaleString()} emails read.`;
    case 'done':
      if (state.rows === 1) return '1 email was saved.';
      return `${state.rows.toLocaleString()} emails were saved.`;
    case 'cut':
      return `The newest ${state.rows.toLocaleString()} emails were saved. There are more: narrow the search with after: and before:.`;
  }
}

async function readAll(
  api: Api,
  q: string,
  signal: AbortSignal,
  onRows: (rows: number) => void,
): Promise<{ emails: EmailSummary[]; isCut: boolean }> {
  const emails: EmailSummary[] = [];
  let after: string | undefined;
  for (;;) {
    const page: EmailPage = await api.call('listEmails', {
      query: { q, limit: PAGE, after },
      signal,
    });
    emails.push(...page.data);
    onRows(emails.length);
    after = nextAfter(page);
    if (after === undefined) return { emails, isCut: false };
    if (emails.length >= ROWS_MAX) return { emails, isCut: true };
  }
}

const COLUMNS: readonly (readonly [title: string, cell: (email: EmailSummary) => string])[] = [
  ['id', ({ id }) => id],
  ['created_at', ({ created_at: at }) => at],
  ['status', ({ status }) => status],
  ['from', ({ from }) => from],
  ['to', ({ to }) => to.join(', ')],
  ['cc', ({ cc }) => cc.join(', ')],
  ['bcc', ({ bcc }) => bcc.join(', ')],
  ['subject', ({ subject }) => subject],
  ['tags', ({ tags }) => tags.map(({ name, value }) => `${name}:${value}`).join(', ')],
  ['completed_at', ({ completed_at: at }) => at ?? ''],
];
