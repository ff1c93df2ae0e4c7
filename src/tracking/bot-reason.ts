/**
 * Decides which opens and clicks come from machines, by the request alone. Receivers check links before they deliver,
 * and mail programs load images before their users do, or for them. The rules are few, so that each can be explained
 * (docs/tracking.md). They are wrong at times: a scanner that pretends to be a browser is not recognised.
 * tracking-store.ts decides by the time of delivery when it stores the visit.
 */

export type VisitRequest = {
  isHead: boolean;
  userAgent: string | null;
  /** `Sec-Purpose`, `Purpose` or `X-Moz`; null without all of them. */
  purpose: string | null;
};

export type BotReason =
  | 'head'
  | 'no_user_agent'
  /** A mail program loads it before the user opens the message. */
  | 'prefetch'
  /** Image proxy of a mailbox provider, which hides when and whether the email was opened. */
  | 'proxy'
  | 'scanner'
  | 'many_links';

/** The first that matches counts. */
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

/** Returns null when the request looks like a person's. */
export function botReasonOf({ isHead, userAgent, purpose }: VisitRequest): BotReason | null {
  if (isHead) return 'head';
  if (purpose !== null && /prefetch|preview/i.test(purpose)) return 'prefetch';
  if (userAgent === null || userAgent.trim() === '') return 'no_user_agent';
  return USER_AGENTS.find(([, pattern]) => pattern.test(userAgent))?.[0] ?? null;
}
