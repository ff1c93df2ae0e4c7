/**
 * Adds tracking to the html of an email: links go through the tracking host, and a pixel stands before `</body>`.
 *
 * Only the `href` values of `<a>` and `<area>` change, and the pixel is added; no other character changes. parse5
 * splits the html into tags like browsers. No tree is built, so nesting costs nothing and the time is linear. Links
 * in comments (for Outlook) are not markup and are not tracked.
 */
import { type Token, Tokenizer, TokenizerMode } from 'parse5';
import {
  targetOf,
  TRACKED_HTML_MAX_LENGTH,
  type TrackedRecipient,
  type Tracking,
  type TrackingTokens,
} from '../links/tracking-link.ts';

/** Further links are not tracked. */
export const TRACKED_LINKS_MAX = 1_000;
/** `<a data-letterhaus-track="off" href="…">` is not tracked. */
const OPT_OUT = 'data-letterhaus-track';

export type TrackingOptions = {
  tracking: Tracking;
  recipient: TrackedRecipient;
  tokens: TrackingTokens;
  /** Returns whether a link must not be tracked, such as an unsubscribe link. */
  isUntracked: (target: string) => boolean;
};

/** Elements whose content is not markup. */
const CONTENT_MODES = new Map([
  ['title', TokenizerMode.RCDATA],
  ['textarea', TokenizerMode.RCDATA],
  ...['style', 'xmp', 'iframe', 'noembed', 'noframes'].map(
    (name) => [name, TokenizerMode.RAWTEXT] as const,
  ),
  ['script', TokenizerMode.SCRIPT_DATA],
  ['plaintext', TokenizerMode.PLAINTEXT],
]);
const VALUE_START = /^href[\t\n\f\r ]*=[\t\n\f\r ]*(["']?)/i;

export function trackHtml(
  html: string,
  { tracking, recipient, tokens, isUntracked }: TrackingOptions,
): string {
  const { opens, clicks, base } = tracking;
  if (base === null || html.length > TRACKED_HTML_MAX_LENGTH) return html;
  const { links, bodyEnd } = findLinks(html);
  // The attribute may have single quotes or none.
  const ownBase = base.replace(/['&`]/g, encodeURIComponent).replaceAll("'", '%27');
  const urlOf = (target: string | null): string => `${ownBase}/t/${tokens.make(recipient, target)}`;
  const tracked = clicks ? links.filter(({ target }) => !isUntracked(target)) : [];
  const edits = tracked
    .slice(0, TRACKED_LINKS_MAX)
    .map(({ start, end, target }) => ({ start, end, text: urlOf(target) }));
  if (opens) {
    const at = bodyEnd ?? html.length;
    edits.push({
      start: at,
      end: at,
      text: `<img src="${urlOf(null)}" width="1" height="1" alt="">`,
    });
  }
  const pieces: string[] = [];
  let copied = 0;
  for (const { start, end, text } of edits.toSorted((a, b) => a.start - b.start)) {
    pieces.push(html.slice(copied, start), text);
    copied = end;
  }
  return pieces.join('') + html.slice(copied);
}

/** The position of an href's value without its quotes, and its target. */
type Link = { start: number; end: number; target: string };

/** @returns `bodyEnd`: the offset of the last `</body>`; null when there is none */
function findLinks(html: string): { links: Link[]; bodyEnd: number | null } {
  const links: Link[] = [];
  let bodyEnd: number | null = null;
  const nothing = (): void => {};
  const tokenizer = new Tokenizer(
    { sourceCodeLocationInfo: true },
    {
      onStartTag(tag) {
        if (tag.tagName === 'a' || tag.tagName === 'area') {
          const link = linkOf(tag, html);
          if (link !== null) links.push(link);
        }
        const mode = CONTENT_MODES.get(tag.tagName);
        if (mode !== undefined) tokenizer.state = mode;
      },
      onEndTag({ tagName, location }) {
        if (tagName === 'body') bodyEnd = location?.startOffset ?? null;
      },
      onComment: nothing,
      onDoctype: nothing,
      onCharacter: nothing,
      onNullCharacter: nothing,
      onWhitespaceCharacter: nothing,
      onEof: nothing,
    },
  );
  tokenizer.write(html, true);
  return { links, bodyEnd };
}

function linkOf({ attrs, location }: Token.TagToken, html: string): Link | null {
  const href = attrs.find(({ name }) => name === 'href');
  const place = location?.attrs?.['href'];
  if (href === undefined || place === undefined) return null;
  const target = targetOf(href.value);
  const isOff = attrs.some(({ name, value }) => name === OPT_OUT && /^off$/i.test(value));
  if (target === null || isOff) return null;
  const [before, quote = ''] =
    VALUE_START.exec(html.slice(place.startOffset, place.endOffset)) ?? [];
  if (before === undefined) return null;
  return { start: place.startOffset + before.length, end: place.endOffset - quote.length, target };
}
