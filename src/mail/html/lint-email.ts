/** Advice about likely problems of an accepted email, each with a code and a sentence. Nothing depends on it. */
import type { MessageContent } from '../email.ts';
import { scanHtml } from './html.ts';
import { textFromHtml } from './text-from-html.ts';

export const LINT_CODES = [
  'no_text_part',
  'clipped_by_gmail',
  'http_links',
  'image_only',
  'no_unsubscribe',
] as const;

export type LintFinding = { code: (typeof LINT_CODES)[number]; message: string };

/** Gmail shows this much HTML, and a link to the rest. */
const CLIPPED_BEYOND_BYTES = 102 * 1024;
/** Limit on the html and text that are read. The rest is rarely shown, so advice may ignore it. */
const READ_CHARS_MAX = 256 * 1024;
/** Minimum of letters and digits; a message with fewer consists of images. */
const WORDS_MIN = 20;
/** Each run of spaces is bounded: two adjacent unbounded runs would take quadratic time. */
const HTTP_LINK = /(?:^|\s)(?:href|src)\s{0,9}=\s{0,9}["']?\s{0,9}http:/i;
/** Words of newsletters that transactional mail does not have. */
const BULK_WORDS =
  /\b(?:unsubscribe|newsletter|view (?:this (?:e-?mail|message) )?(?:in|online)(?: (?:a|your))? browser|opt[- ]out|you (?:are )?receiv(?:e|ing) this (?:e-?mail|message) because|email preferences|weekly digest)\b/i;

export function lintEmail(email: MessageContent): LintFinding[] {
  const findings: LintFinding[] = [];
  const add = (code: LintFinding['code'], message: string) => findings.push({ code, message });
  const { html } = email;
  const text = email.text?.slice(0, READ_CHARS_MAX) ?? null;
  const htmlFacts = html === null ? null : readHtml(html.slice(0, READ_CHARS_MAX));
  if (html !== null && text === '') {
    add(
      'no_text_part',
      'The message has no text part: leave text out, and it is derived from html.',
    );
  }
  const htmlBytes = Buffer.byteLength(html ?? '');
  if (htmlBytes > CLIPPED_BEYOND_BYTES) {
    add(
      'clipped_by_gmail',
      `html has ${Math.ceil(htmlBytes / 1024)} KB, and Gmail clips a message beyond 102 KB: shorten it.`,
    );
  }
  const links = htmlFacts?.httpLinks ?? plainLinks(text ?? '');
  if (links > 0) {
    add(
      'http_links',
      `${links} ${links === 1 ? 'link or image is' : 'links or images are'} loaded by http, without TLS: use https.`,
    );
  }
  if (htmlFacts !== null && htmlFacts.images > 0 && wordsIn(htmlFacts.text) < WORDS_MIN) {
    add('image_only', 'The message is all images, which many readers do not load: add text.');
  }
  if (looksLikeBulk({ ...email, text }, htmlFacts?.text ?? '') && !hasUnsubscribe(email)) {
    add(
      'no_unsubscribe',
      'The message looks like bulk mail and has no List-Unsubscribe header, which Gmail and Yahoo require: set unsubscribe.',
    );
  }
  return findings;
}

type HtmlFacts = { text: string; images: number; httpLinks: number };

function readHtml(html: string): HtmlFacts {
  let [images, httpLinks] = [0, 0];
  scanHtml(html, {
    text: () => {},
    close: () => {},
    open: (name, attributes) => {
      if (name === 'img') images += 1;
      if (HTTP_LINK.test(attributes)) httpLinks += 1;
    },
  });
  return { text: textFromHtml(html), images, httpLinks };
}

function plainLinks(text: string): number {
  return text.match(/\bhttp:\/\//gi)?.length ?? 0;
}

function wordsIn(text: string): number {
  const withoutLinks = text.replaceAll(/<?https?:\S+/gi, '');
  return withoutLinks.match(/[\p{L}\p{N}]/gu)?.length ?? 0;
}

function looksLikeBulk({ subject, text, headers }: MessageContent, htmlText: string): boolean {
  const isMarked = headers.some(
    ([name, value]) =>
      /^list-(?!unsubscribe)/i.test(name) ||
      (/^precedence$/i.test(name) && /^(?:bulk|list)$/i.test(value.trim())),
  );
  return isMarked || [subject, text ?? '', htmlText].some((part) => BULK_WORDS.test(part));
}

function hasUnsubscribe({ unsubscribeUrl, headers }: MessageContent): boolean {
  return unsubscribeUrl !== null || headers.some(([name]) => /^list-unsubscribe$/i.test(name));
}
