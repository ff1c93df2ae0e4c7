/** The filter of the deliveries of a webhook, in the address of the page and as a query of the API. */
import type { Query } from '../../api/operations.ts';
import { PROJECT_EVENT_TYPES } from '../../../../src/core/events.ts';

/** A filter in the address of the page. */
export type FilterSearch = Partial<Record<'status' | 'type' | 'code' | 'period' | 'q', string>>;

export const STATUSES = [
  ['', 'Any status'],
  ['failed', 'Failed'],
  ['pending', 'Pending'],
  ['delivered', 'Delivered'],
] as const;

export const CODES = [
  ['', 'Any response'],
  ['2xx', '2xx: accepted'],
  ['3xx', '3xx: redirect'],
  ['4xx', '4xx: refused'],
  ['5xx', '5xx: server error'],
  ['none', 'No response'],
] as const;

export const TYPES = [
  ['', 'Any event'],
  ...PROJECT_EVENT_TYPES.map((type) => [type, type] as const),
  ['webhook.test', 'webhook.test'],
] as const;

const HOUR_MS = 3_600_000;
const PERIODS_MS: Readonly<Record<string, number>> = {
  hour: HOUR_MS,
  day: 24 * HOUR_MS,
  week: 7 * 24 * HOUR_MS,
};
export const PERIODS = [
  ['', 'Any time'],
  ['hour', 'Last hour'],
  ['day', 'Last 24 hours'],
  ['week', 'Last 7 days'],
] as const;

/** The period begins at a full minute, so that the query stays the same within it. */
const MINUTE_MS = 60_000;

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

export type TypedText = { recipient: string } | { id: string } | null;

/** An address, or the id of an email or a delivery. */
export function typedText(text = ''): TypedText {
  const typed = text.trim();
  if (UUID.test(typed)) return { id: typed.toLowerCase() };
  return typed === '' ? null : { recipient: typed };
}

export function queryOf(search: FilterSearch, nowMs: number): Query<'listWebhookDeliveries'> {
  const { status, type, code, period, q } = search;
  const periodMs = PERIODS_MS[period ?? ''];
  const typed = typedText(q);
  const known = <Value extends string>(
    options: readonly (readonly [Value, string])[],
    value?: string,
  ) => options.find(([one]) => one !== '' && one === value)?.[0] as Exclude<Value, ''> | undefined;
  return {
    status: known(STATUSES, status),
    type: known(TYPES, type),
    code: code !== undefined && /^(?:none|[1-5](?:\d\d|xx))$/.test(code) ? code : undefined,
    since:
      periodMs === undefined
        ? undefined
        : new Date(Math.floor((nowMs - periodMs) / MINUTE_MS) * MINUTE_MS).toISOString(),
    email_id: typed !== null && 'id' in typed ? typed.id : undefined,
    recipient: typed !== null && 'recipient' in typed ? typed.recipient : undefined,
  };
}

export function isFiltered({ status, type, code, period, q }: FilterSearch): boolean {
  return [status, type, code, period, q].some((one) => one !== undefined && one !== '');
}
