/** What the pages of the service share that are neither API nor dashboard: no script runs in any of them. */
import { createHash } from 'node:crypto';

/** For text between tags, and in attributes within quotes. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/**
 * The policy of a page with html of strangers: no scripts, no forms, in a frame of the dashboard only.
 * @param sandbox beyond the default, in which the page has no origin
 * @param remote whether other servers may be asked for images, styles and fonts, and so learn of the reader
 */
export function strangersPolicy(
  { remote }: { remote: boolean },
  sandbox: '' | 'allow-same-origin' = '',
): string {
  const loads = remote
    ? "img-src https: data:; font-src https:; style-src 'unsafe-inline' https:"
    : "img-src data:; style-src 'unsafe-inline'";
  const base = `sandbox ${sandbox}`.trim();
  return `${base}; default-src 'none'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'; ${loads}`;
}

/**
 * Of a page that loads nothing and cannot be framed.
 * @param style content of the only style element
 * @param formAction where forms may post to
 */
export function pageHeaders(style: string, formAction: "'none'" | "'self'") {
  const hash = createHash('sha256').update(style).digest('base64');
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy':
      `default-src 'none'; style-src 'sha256-${hash}'; form-action ${formAction}; ` +
      `base-uri 'none'; frame-ancestors 'none'`,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  } as const;
}
