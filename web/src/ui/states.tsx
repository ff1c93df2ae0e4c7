/** The states of a screen without content: loading, empty, missing, forbidden, failed. All but loading look alike. */
import { CloudOff, type LucideIcon, SearchX } from 'lucide-react';
import { type ReactNode, useEffect } from 'react';
import { ApiError } from '../api/client.ts';
import { Button } from './button.tsx';
import { CopyButton } from './copy.tsx';
import { PageBody } from './page.tsx';
import { RequestLink } from './request-link.tsx';
import type { Tone } from './tone.ts';

/** More rows than any window shows. */
const ROWS_OF_WINDOW = 40;
const NAME_WIDTHS = ['w-3/5', 'w-2/5', 'w-1/2', 'w-1/3'];

/** Rows of a table that loads, in the geometry of the real ones: `rows`, or a head and as many as the window shows. */
export function RowsSkeleton({ rows }: { rows?: number }): ReactNode {
  const height =
    rows === undefined
      ? 'max-h-[round(down,calc(100dvh-15rem),var(--spacing-row))] overflow-hidden'
      : '';
  return (
    <div role="status" aria-label="Loading">
      {rows === undefined && (
        <div className="flex h-8.5 items-center gap-6 border-b border-line px-(--page-x) max-md:hidden">
          <div className="skeleton h-2.5 w-16" />
          <div className="skeleton ml-auto h-2.5 w-14" />
        </div>
      )}
      <div className={height}>
        {Array.from({ length: rows ?? ROWS_OF_WINDOW }, (_, row) => (
          <div
            key={row}
            className="flex h-row items-center gap-6 border-line px-(--page-x) not-first:border-t"
          >
            <div className="min-w-0 basis-2/5">
              <div className={`skeleton h-3 ${widthOf(row)}`} />
            </div>
            <div className="skeleton h-3 w-24 max-md:hidden" />
            <div className="skeleton ml-auto h-3 w-16" />
          </div>
        ))}
      </div>
    </div>
  );
}

/** From this width on, rows of emails have columns and a head. */
const EMAIL_ROW =
  'grid h-14 grid-cols-[minmax(0,1fr)_auto] content-center items-center gap-x-6 gap-y-2.5 border-b border-line px-(--page-x) @min-[720px]:h-11 @min-[720px]:grid-cols-[minmax(0,4fr)_minmax(0,5fr)_6.5rem_6rem] @min-[720px]:gap-x-5';

/**
 * Rows of the lists of emails, as many as there is room for.
 * @param props.head titles of the columns, for a whole list
 */
export function ListSkeleton(props: { rows?: number; head?: ReactNode }): ReactNode {
  const { rows = ROWS_OF_WINDOW, head } = props;
  return (
    <div role="status" aria-label="Loading" className="@container min-h-0 grow overflow-hidden">
      {head !== undefined && (
        <div className="hidden h-8.5 items-center border-b border-line px-(--page-x) text-xs font-medium text-muted @min-[720px]:flex">
          {head}
        </div>
      )}
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className={EMAIL_ROW}>
          <div className="skeleton h-3 w-48 max-w-full" />
          <div className={`skeleton order-2 h-3 @min-[720px]:order-none ${widthOf(row)}`} />
          <div className="skeleton order-3 h-3 w-18 @min-[720px]:order-none" />
          <div className="skeleton order-1 h-3 w-14 justify-self-end @min-[720px]:order-none" />
        </div>
      ))}
    </div>
  );
}

function widthOf(row: number): string {
  return NAME_WIDTHS[row % NAME_WIDTHS.length] ?? '';
}

/** The card of a page that loads. */
export function PageSkeleton(): ReactNode {
  return (
    <OnCard>
      <RowsSkeleton />
    </OnCard>
  );
}

function OnCard({ children }: { children: ReactNode }): ReactNode {
  return (
    <PageBody>
      <div className="overflow-hidden rounded-card border border-line bg-surface [--page-x:1rem]">
        {children}
      </div>
    </PageBody>
  );
}

/**
 * A place without content: one line that names the state, one line that says what to do, at most one action.
 * @param props.isPage the title is that of the page
 */
function State(props: {
  icon: LucideIcon | undefined;
  tone: Tone;
  title: string;
  isPage?: boolean | undefined;
  action?: ReactNode;
  children?: ReactNode;
}): ReactNode {
  const { icon: Icon, tone, title, isPage = false, action, children } = props;
  const Title = isPage ? 'h1' : 'h2';
  return (
    <div className="mx-auto flex max-w-xl flex-col items-center px-(--page-x) py-12 text-center">
      {Icon && (
        <span
          aria-hidden
          data-tone={tone}
          className="mb-4 grid size-10 place-items-center rounded-xl border border-line bg-(--tone-tint) text-(--tone)"
        >
          <Icon size={20} strokeWidth={1.75} />
        </span>
      )}
      <Title className="max-w-full text-base font-semibold text-balance break-words">{title}</Title>
      <div className="mt-1 w-full space-y-3 text-balance break-words text-muted empty:hidden">
        {children}
      </div>
      {action && (
        <div className="mt-5 flex flex-wrap items-center justify-center gap-2 empty:hidden">
          {action}
        </div>
      )}
    </div>
  );
}

const NOT_FOUND = 404;

export function Problem({ error, retry }: { error: unknown; retry?: () => void }): ReactNode {
  // Another attempt would find as little.
  const isGone = error instanceof ApiError && error.status === NOT_FOUND;
  const requestId = error instanceof ApiError ? error.requestId : null;
  return (
    <div role="alert">
      <State
        icon={isGone ? SearchX : CloudOff}
        tone={isGone ? 'quiet' : 'bad'}
        title={sentenceOf(error)}
        action={retry && !isGone && <Button onClick={retry}>Try again</Button>}
      >
        {requestId !== null && (
          <p className="flex items-center justify-center gap-1 text-sm">
            Request <RequestLink id={requestId} />
            <CopyButton text={requestId} what="request id" />
          </p>
        )}
      </State>
    </div>
  );
}

/** Shows instead of a page, below its head, that it loads or could not be read. */
export function PageState(props: {
  query: { isPending: boolean; isError: boolean; error: unknown; refetch: () => unknown };
}): ReactNode {
  const { isPending, isError, error, refetch } = props.query;
  if (isPending) return <PageSkeleton />;
  if (!isError) return null;
  return (
    <OnCard>
      <Problem error={error} retry={() => void refetch()} />
    </OnCard>
  );
}

export function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : 'Something went wrong.';
}

/**
 * An empty list: what it will hold, and how to fill it.
 * @param props.action the button that fills it, or a link to what explains it
 */
export function Empty(props: {
  title: string;
  icon?: LucideIcon;
  action?: ReactNode;
  children?: ReactNode;
}): ReactNode {
  const { title, icon, action, children } = props;
  return (
    <State icon={icon} tone="quiet" title={title} action={action}>
      {children}
    </State>
  );
}

/** A page that shows one state and nothing else. */
export function StatePage(props: {
  title: string;
  icon: LucideIcon;
  action?: ReactNode;
  children?: ReactNode;
}): ReactNode {
  const { title, icon, action, children } = props;
  useEffect(() => {
    document.title = `${title} · Letterhaus`;
  }, [title]);
  return (
    <div className="pt-6">
      <OnCard>
        <State isPage icon={icon} tone="quiet" title={title} action={action}>
          {children}
        </State>
      </OnCard>
    </div>
  );
}

/** A browser lays out a longer text, which may be one line, for seconds. */
const SHOWN_CHARACTERS_MAX = 200_000;

/** Shows a text unchanged, or the first characters of a very long text, with a button that copies the whole text. */
export function Code({ text, what }: { text: string; what: string }): ReactNode {
  const isCut = text.length > SHOWN_CHARACTERS_MAX;
  return (
    <div className="relative rounded-md border border-line bg-sunken text-left text-text">
      <pre
        tabIndex={0}
        aria-label={what}
        className="overflow-x-auto p-3 pr-12 font-mono text-xs leading-relaxed max-md:[overflow-wrap:anywhere] max-md:whitespace-pre-wrap"
      >
        {isCut ? text.slice(0, SHOWN_CHARACTERS_MAX) : text}
      </pre>
      {isCut && (
        <p className="border-t border-line px-3 py-2 text-sm text-muted">
          These are the first {SHOWN_CHARACTERS_MAX.toLocaleString()} of{' '}
          {text.length.toLocaleString()} characters. The copy has all of them.
        </p>
      )}
      <span className="pointer-events-none absolute inset-y-0 right-0 rounded-r-md bg-linear-to-l from-sunken from-75% to-transparent p-1.5 pl-5 *:pointer-events-auto">
        <CopyButton text={text} what={what} />
      </span>
    </div>
  );
}
