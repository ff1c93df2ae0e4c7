/** What the service's own pages share: they run no script, load nothing and cannot be framed. */
import { createHash } from 'node:crypto';

/** For text between tags, and in attributes within quotes. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** @param style content of the only style element; @param formAction where forms may post to */
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
