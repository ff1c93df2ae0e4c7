/**
 * Shows HTML of strangers, for example a rendered template. The frame loads an empty
 * page of the service, whose policy allows neither scripts nor forms (src/http/dashboard/routes.ts), and the
 * html is put into that page. It stays there while it changes, so that it does not flicker and stays scrolled.
 */
import { type ReactNode, useEffect, useRef } from 'react';
import { inertHtml } from '../../../src/mail/html/inert-html.ts';

const PAGE = '/dashboard/frame';

type Props = {
  html: string;
  title: string;
  /** Whether images, styles and fonts are loaded from other servers. */
  hasRemote: boolean;
  className?: string;
  width: string;
};

export function HtmlFrame({ html, title, hasRemote, className = '', width }: Props): ReactNode {
  const frame = useRef<HTMLIFrameElement>(null);
  const isRestored = useRef(false);
  const show = (): void => {
    const page = emptyPageOf(frame.current);
    if (page) replaceContent(page, inertHtml(html, { remote: hasRemote }));
  };
  const restore = (): void => {
    const page = emptyPageOf(frame.current);
    // It was led elsewhere. Once only, lest it goes on while the service does not answer.
    if (!page && frame.current && !isRestored.current) frame.current.src = addressOf(hasRemote);
    isRestored.current = page === null;
    show();
  };
  useEffect(show, [html]);
  return (
    <iframe
      ref={frame}
      key={String(hasRemote)}
      title={title}
      sandbox="allow-same-origin"
      referrerPolicy="no-referrer"
      src={addressOf(hasRemote)}
      onLoad={restore}
      className={`max-w-full rounded-lg border border-line ${className}`}
      style={{ width }}
    />
  );
}

function addressOf(hasRemote: boolean): string {
  return hasRemote ? `${PAGE}?remote=yes` : PAGE;
}

/** @returns null before it is loaded, while the frame has a page with the policy of the dashboard */
function emptyPageOf(frame: HTMLIFrameElement | null): Window | null {
  const page = frame?.contentWindow ?? null;
  // Without a document it is a page of another origin.
  return frame?.contentDocument && page?.location.pathname === PAGE ? page : null;
}

function replaceContent(page: Window, html: string): void {
  // Parsed in the frame, whose policy decides about inline styles.
  const { DOMParser } = page as Window & typeof globalThis;
  const parsed = new DOMParser().parseFromString(html, 'text/html');
  const { scrollX, scrollY } = page;
  // The page may be without content still, just after it took the place of the one before: its load follows.
  rootOf(page.document)?.replaceWith(rootOf(parsed)!);
  // A link would lead the frame elsewhere.
  page.addEventListener('click', stay);
  page.scrollTo(scrollX, scrollY);
}

function stay(event: Event): void {
  event.preventDefault();
}

/** Asked of the prototype: `<img name="documentElement">` hides the property of its document. */
function rootOf(document: Document): Element | null {
  return Reflect.get(Document.prototype, 'documentElement', document);
}
