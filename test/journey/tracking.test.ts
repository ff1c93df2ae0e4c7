/** Opens and clicks: from the message that a mail server gets to the events, for any requested links. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import PostalMime from 'postal-mime';
import { startJourney } from '../support/journey.ts';
import type { ApiResponse } from '../support/service.ts';
import { idIn, SUBMISSION_ENV, transportTo } from '../support/submission.ts';
import { waitFor } from '../support/wait.ts';

const TRACKING_URL = 'https://links.acme.example';
const PROXY = '127.0.0.1';

const journey = await startJourney(
  {
    ...SUBMISSION_ENV,
    LETTERHAUS_PUBLIC_URL: 'https://mail.acme.example',
    LETTERHAUS_TRACKING_URL: TRACKING_URL,
    LETTERHAUS_TRUSTED_PROXIES: PROXY,
  },
  { args: ['--workers', '1'] },
);
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
const TARGETS = ['https://a.test/', 'https://b.test/', 'https://c.test/'];
const OPT_OUT = 'https://acme.example/leave?who=7';
const HTML = `<body>${[...TARGETS, OPT_OUT].map((url) => `<a href="${url}">x</a>`).join('')}</body>`;

type Sent = { id: string; pixel: string; links: string[]; html: string };

/** A tracked email that was delivered a minute ago; the paths of its links. */
async function sent(domain: string, change: object = {}): Promise<Sent> {
  const mx = await journey.mailServer(domain);
  const tracking = { opens: true, clicks: true };
  const id = await journey.send({ to: `jo@${domain}`, html: HTML, tracking, ...change });
  await journey.ended(id);
  await journey.pass({ minutes: 1 });
  const { html = '' } = await PostalMime.parse(mx.messages[0]!.raw);
  const [pixel = '', ...links] = [
    ...html.matchAll(/<img src="([^"]+)"/g),
    ...html.matchAll(/<a href="([^"]+)"/g),
  ].map(([, url]) => url!.replace(TRACKING_URL, ''));
  assert.match(pixel, /^\/t\//);
  return { id, pixel, links, html };
}

/** Requests a path as a browser behind the proxy does. */
function visit(path: string, { ip = '203.0.113.77', userAgent = BROWSER, method = 'GET' } = {}) {
  const headers = { 'user-agent': userAgent, 'x-forwarded-for': ip };
  return fetch(service.url + path, { method, headers, redirect: 'manual' });
}

type Body = ApiResponse['body'];

/** The opens and clicks of the email, once there are so many. */
async function visits(id: string, count: number): Promise<Body[]> {
  const isVisit = ({ type }: Body) => ['email.opened', 'email.clicked'].includes(type);
  const find = async () => {
    const { status, body } = await journey.request('GET', `/v1/emails/${id}/events?limit=100`);
    if (status === 503) return false;
    const found = body.data.filter(isVisit);
    return found.length >= count && found;
  };
  const found = await waitFor(find, { what: `${count} opens and clicks` });
  assert.equal(found.length, count);
  return found;
}

const facts = ({ data }: Body) => data.open ?? data.click;

test('an open and a click are events with their client, and webhooks get them', async () => {
  const { id, pixel, links } = await sent('read.test');
  assert.equal((await visit(pixel)).status, 200);
  const clicked = await visit(links[0]!);
  assert.deepEqual([clicked.status, clicked.headers.get('location')], [302, TARGETS[0]]);
  const [opened, click] = await visits(id, 2);
  const client = { ip: '203.0.113.0', user_agent: BROWSER, is_bot: false, bot_reason: null };
  assert.deepEqual([opened.type, opened.recipient], ['email.opened', 'jo@read.test']);
  assert.deepEqual(opened.data.open, client);
  assert.deepEqual([click.type, click.data.recipient], ['email.clicked', 'jo@read.test']);
  assert.deepEqual(click.data.click, { ...client, link: TARGETS[0] });
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'opened', 'clicked']);
  const { status, last_event } = await journey.email(id);
  assert.deepEqual([status, last_event], ['delivered', 'email.clicked']);
});

test('visits of machines are flagged with the reason', async () => {
  const { id, pixel, links } = await sent('scanned.test');
  await visit(links[0]!, { method: 'HEAD' });
  await visit(pixel, { userAgent: 'Mozilla/5.0' });
  await visit(pixel, { userAgent: 'Mozilla/5.0 (via ggpht.com GoogleImageProxy)' });
  const reasons = async (count: number) =>
    new Set((await visits(id, count)).map((one) => facts(one).bot_reason));
  assert.deepEqual(await reasons(3), new Set(['head', 'prefetch', 'proxy']));

  const burst = await sent('burst.test');
  for (const link of burst.links.slice(0, TARGETS.length)) await visit(link);
  for (const click of await visits(burst.id, TARGETS.length)) {
    assert.deepEqual([facts(click).is_bot, facts(click).bot_reason], [true, 'many_links']);
  }
});

test('links by which recipients unsubscribe are not tracked', async () => {
  const own = await sent('own.test', { unsubscribe: OPT_OUT });
  assert.ok(own.html.includes(`<a href="${OPT_OUT}">`));
  const header = { 'List-Unsubscribe': `<mailto:a@acme.example>, <${OPT_OUT}>` };
  const written = await sent('written.test', { headers: header });
  assert.ok(written.html.includes(`<a href="${OPT_OUT}">`));
  assert.equal(written.links.filter((link) => link.startsWith('/t/')).length, TARGETS.length);
});

test('mail submitted by SMTP is tracked by the setting of its domain, and signed with its links', async () => {
  const { body } = await journey.request('GET', '/v1/domains');
  const path = `/v1/domains/${body.data[0].id}`;
  const setting = (opens: boolean) => journey.request('PATCH', path, { tracking: { opens } });
  assert.equal((await setting(true)).status, 200);
  const mx = await journey.mailServer('bysmtp.test');
  const [port = 0] = service.readyLine.submission_ports ?? [];
  const transport = transportTo({ port, key: await journey.key() });
  const { response } = await transport.sendMail({
    from: 'Acme <hello@acme.example>',
    to: ['kim@bysmtp.test', 'lee@bysmtp.test'],
    subject: 'Hi',
    text: 'Grüße',
    html: `<p>Grüße</p>${HTML}`,
    headers: { 'List-Unsubscribe': `<${OPT_OUT}>` },
  });
  transport.close();
  await setting(false);
  const id = idIn(response);
  await journey.ended(id);
  assert.deepEqual((await journey.email(id)).tracking, { opens: true, clicks: false });
  const pixels = new Set<string>();
  for (const { raw, recipients } of mx.messages) {
    const { html = '', text } = await PostalMime.parse(raw);
    assert.ok(html.startsWith('<p>Grüße</p>') && html.includes(HTML.replace('</body>', '')));
    assert.equal(text?.trim(), 'Grüße');
    pixels.add(/<img src="https:\/\/links\.acme\.example(\/t\/[^"]+)"/.exec(html)?.[1] ?? '');
    const shown = await journey.request(
      'GET',
      `/v1/emails/${id}/content?recipient=${recipients[0]}`,
    );
    assert.equal(shown.text, raw.toString());
    assert.match(raw.toString(), /^DKIM-Signature: /m);
  }
  assert.equal(pixels.size, 2);
  for (const pixel of pixels) await visit(pixel);
  await visits(id, 2);
});

test('a link that is requested very often stores few events and responds every time', async () => {
  const { id, links } = await sent('flooded.test');
  let status = new Set<number>();
  // A client of its own: the minute of its limit begins here.
  for (let round = 0; round < 20; round += 1) {
    const responses = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        visit(links[0]!, { ip: '203.0.113.99', userAgent: `${BROWSER} ${round} ${index}` }),
      ),
    );
    status = new Set([...status, ...responses.map((response) => response.status)]);
    for (const response of responses) await response.arrayBuffer();
  }
  assert.deepEqual(status, new Set([302]));
  await visits(id, 50);
  await service.counted(/letterhaus_tracking_visits_total\{result="limited"\} [1-9]/);
  await service.counted(/letterhaus_tracking_visits_total\{result="not_stored"\} [1-9]/);
});

test('links work while the database is unavailable, and visits are stored afterwards', async () => {
  const { id, pixel, links } = await sent('away.test');
  await service.setDatabaseReachable(false);
  const clicked = await visit(links[1]!, { ip: '203.0.114.5' });
  assert.deepEqual([clicked.status, clicked.headers.get('location')], [302, TARGETS[1]]);
  assert.equal((await visit(pixel, { ip: '203.0.114.5' })).status, 200);
  await service.setDatabaseReachable(true);
  await visits(id, 2);
});

test('the link of an email that was removed still redirects, and stores nothing', async () => {
  const { id, links } = await sent('removed.test');
  for (const table of ['emails where id', 'recipients where email_id', 'events where subject_id']) {
    await service.sql(`delete from ${table} = $1`, [id]);
  }
  const clicked = await visit(links[0]!, { ip: '203.0.115.5' });
  assert.deepEqual([clicked.status, clicked.headers.get('location')], [302, TARGETS[0]]);
  const control = await sent('control.test');
  await visit(control.links[0]!, { ip: '203.0.115.5' });
  await visits(control.id, 1);
  assert.deepEqual(await service.sql('select from events where subject_id = $1', [id]), []);
});

test('the log has no target, no address and no link', async () => {
  await service.logged(/"route":"\/t\/:token"/);
  assert.doesNotMatch(service.logs, /jo@|a\.test|203\.0\.113|\/t\/[\w-]{20}/);
});
