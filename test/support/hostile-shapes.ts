/**
 * Requests of an attacker, and the reply of a hostile mail server. Each is legal, and each has once slowed down
 * every project on the same worker. test/isolation and test/chaos send them and check their effect on others.
 */

export type HostileRequest = {
  path: string;
  /** Absent: a GET. */
  body?: object;
  headers?: Readonly<Record<string, string>>;
};

/** A reply that would slow down the whole provider. */
export const COMPLAINT = '421 4.7.0 Temporarily rate limited due to IP reputation';

/** Number of networks from which passwords are guessed. */
const NETWORKS = 256;
const SEARCHED = 'one two three four five six seven eight';

/** Makes a pattern with two unbounded runs of spaces take quadratic time. */
export function longTag(spaces = 190_000): string {
  return `<img src=${' '.repeat(spaces)}x>`;
}

/** References of four bytes that must all be decoded for the text of the email. */
export function characterReferences(count: number): string {
  return '&lt;'.repeat(count);
}

/** A dry run: an email is only checked, and nothing is stored or counted. */
export function dryRun(from: string, html: string): HostileRequest {
  const body = { from, to: 'delivered@simulator.test', subject: 'Hello', html };
  return { path: '/v1/emails?dry_run=true', body };
}

/** The draft of the template that `listPreview` previews. */
export const PREVIEWED_TEMPLATE = {
  name: 'Long',
  alias: 'long',
  subject: 'Hello',
  text: 'Hello',
} as const;

/** A preview that renders a list of thousands once for each of its members. */
export function listPreview(): HostileRequest {
  const list = Array.from({ length: 9_000 }, () => 'aaa');
  const text = '{% for a in list %}{{ list }}{% endfor %}';
  const body = { content: { text }, variables: { list } };
  return { path: `/v1/templates/${PREVIEWED_TEMPLATE.alias}/preview`, body };
}

export function translationOfUnclosed(): HostileRequest {
  const html = `${'{{#if a}}'.repeat(20_000)}${'\\{{'.repeat(20_000)}`;
  return { path: '/v1/templates/translate', body: { syntax: 'handlebars', html } };
}

export function searchOfManyWords(): HostileRequest {
  return { path: `/v1/emails?q=${encodeURIComponent(SEARCHED)}` };
}

export function eventPoll(): HostileRequest {
  return { path: '/v1/events?limit=100' };
}

/** Returns the nth guess of a password, each from another network, through a trusted proxy. */
export function signInGuess(n: number): HostileRequest {
  const network = n % NETWORKS;
  return {
    path: '/v1/session',
    body: { email: `nobody${network}@acme.test`, password: 'a wrong password' },
    headers: {
      'sec-fetch-site': 'same-origin',
      'letterhaus-session': '1',
      'x-forwarded-for': `203.0.${network}.7`,
    },
  };
}
