/** Puts responses of a receiver into words: an attempt in a line, a failure in a sentence, the state of a webhook. */
import type { Webhook, WebhookDelivery } from '../../../../sdk/src/api.ts';

type Attempt = { status: number | null; answer: string | null; error: string | null };

const SAYING_CHARACTERS = 120;

/** Returns the first line of the response, or the reason why there was none; '' for an empty response. */
export function firstLine({ status, answer, error }: Attempt): string {
  if (status === null) return error ?? 'no response';
  const line = (answer ?? '').replaceAll(/\s+/g, ' ').trim();
  return line === '' ? (error ?? '') : line;
}

/** "500" or "no response", for a chip. */
export function codeOf({ status }: Pick<Attempt, 'status'>): string {
  return status === null ? 'no response' : String(status);
}

/** Returns what a delivery's last attempt got, in one line; null before the first attempt. */
export function resultOf({
  last_attempt: last,
}: Pick<WebhookDelivery, 'last_attempt'>): string | null {
  if (last === null) return null;
  const line = firstLine(last);
  return last.status === null ? line : `${last.status} ${line}`.trim();
}

/** "answers 500, “database is locked”" */
export function answerInWords(attempt: Attempt): string {
  if (attempt.status === null) return `does not answer: ${attempt.error ?? 'no response'}`;
  const saying = sayingOf(attempt.answer ?? '') ?? attempt.error;
  return saying === null
    ? `answers ${attempt.status}`
    : `answers ${attempt.status}, “${shortened(saying)}”`;
}

/** The message in a response: of a JSON error, the title of an HTML page, or the first line. */
export function sayingOf(answer: string): string | null {
  const text = answer.trim();
  if (text === '') return null;
  const title = /<title[^>]*>([^<]+)/i.exec(text)?.[1]?.trim();
  if (title) return title;
  // A long response is cut, so it may be no complete JSON.
  const message = /"(?:message|error|detail|title|reason)"\s*:\s*"((?:[^"\\]|\\.)+)/.exec(
    text,
  )?.[1];
  if (message !== undefined) return message.replaceAll('\\"', '"');
  return text.split('\n', 1)[0]!.trim();
}

function shortened(text: string): string {
  return text.length <= SAYING_CHARACTERS ? text : `${text.slice(0, SAYING_CHARACTERS)}…`;
}

export type WebhookState = 'enabled' | 'failing' | 'disabled';

export function stateOf(webhook: Pick<Webhook, 'status' | 'failing_since'>): WebhookState {
  if (webhook.status === 'disabled') return 'disabled';
  return webhook.failing_since === null ? 'enabled' : 'failing';
}
