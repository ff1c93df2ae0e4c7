/**
 * Shows untrusted HTML, such as a rendered template. The frame loads an empty page of the service, whose policy
 * allows neither scripts nor forms (src/http/dashboard/routes.ts). The HTML is put into that page. A change replaces
 * only the content, so the frame neither flickers nor loses its scroll position.
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
    // The frame has navigated away. It is restored only once, so that it does not loop while the service is
    // unavailable.
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
  // A page of another origin has no document here.
  return frame?.contentDocument && page?.location.pathname === PAGE ? page : null;
}

function replaceContent(page: Window, html: string): void {
  // Parsed in the frame, because its policy decides about inline styles.
  const { DOMParser } = page as Window & typeof globalThis;
  const parsed = new DOMParser().parseFromString(html, 'text/html');
  const { scrollX, scrollY } = page;
  // The page may still be empty right after a navigation. Its load event follows.
  rootOf(page.document)?.replaceWith(rootOf(parsed)!);
  // A link would navigate the frame away.
  page.addEventListener('click', stay);
  page.scrollTo(scrollX, scrollY);
}

function stay(event: Event): void {
  event.preventDefault();
}

/** Uses the prototype, because `<img name="documentElement">` hides the property of its document. */
function rootOf(document: Document): Element | null {
  return Reflect.get(Document.prototype, 'documentElement', document);
}
