/**
 * Which opens and clicks are of machines, by what the request itself says: receivers look at links before they
 * deliver, and mail programs load images before or instead of their users. The rules are few, so that
 * each can be explained (docs/tracking.md). They err on both sides: a scanner that pretends to be a browser is not
 * recognised. What depends on the time of delivery is decided when the visit is stored (tracking/tracking-store.ts).
 */

export type VisitRequest = {
  isHead: boolean;
  /** null: it had none. */
  userAgent: string | null;
  /** `Sec-Purpose`, `Purpose` or `X-Moz`; null: none of them. */
  purpose: string | null;
};

export type BotReason =
  | 'head'
  | 'no_user_agent'
  /** A mail program loads it before the user opens the message. */
  | 'prefetch'
  /** The image proxy of a mailbox provider, which hides when and whether it was opened. */
  | 'proxy'
  /** A security scanner, a crawler or a program. */
  | 'scanner'
  | 'many_links';

/** In order: the first that matches. */
const USER_AGENTS: readonly [BotReason, RegExp][] = [
  // Apple Mail Privacy Protection sends exactly this.
  ['prefetch', /^Mozilla\/5\.0$/],
  ['proxy', /GoogleImageProxy|ggpht\.com|YahooMailProxy|YahooCacheSystem/i],
  [
    'scanner',
    /barracuda|mimecast|proofpoint|symantec|messagelabs|sophos|fortinet|fortiguard|trend ?micro|zscaler|cisco|ironport|cloudmark|forcepoint|websense|checkpoint|urldefense|safelinks/i,
  ],
  [
    'scanner',
    /(?<!\bcu)bot\b|crawl|spider|slurp|preview|scanner|monitor|headless|phantomjs|puppeteer/i,
  ],
  [
    'scanner',
    /^(?:curl|wget|python|go-http|java|okhttp|ruby|perl|php|node|axios|undici|libwww|apache-httpclient|postman)/i,
  ],
];

/** null: the request looks like one of a person. */
export function botReasonOf({ isHead, userAgent, purpose }: VisitRequest): BotReason | null {
  if (isHead) return 'head';
  if (purpose !== null && /prefetch|preview/i.test(purpose)) return 'prefetch';
  if (userAgent === null || userAgent.trim() === '') return 'no_user_agent';
  return USER_AGENTS.find(([, pattern]) => pattern.test(userAgent))?.[0] ?? null;
}
