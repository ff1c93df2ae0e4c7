/**
 * A service on which every screen of the dashboard has something to show: mail with all outcomes, figures of eight
 * days, a template with a draft, a webhook that fails, suppressions, refused requests, a domain without records.
 * Its DNS and the receiver of webhooks are real servers on loopback.
 */
import { type Browser as ApiBrowser, memberOf, ownerOf } from './browser.ts';
import { startFakeDns } from './fake-dns.ts';
import { type Service, startService } from './service.ts';

const HOST = 'mail.acme.test';
const UNREACHABLE = 'https://hooks.example.org/email';

export type FullService = AsyncDisposable & {
  service: Service;
  owner: ApiBrowser;
  project: string;
  email: string;
  template: string;
  webhook: string;
  domain: string;
};

const MAIL: readonly (readonly [to: string, subject: string])[] = [
  ['delivered@simulator.test', 'Your receipt from Acme'],
  ['complained@simulator.test', 'News of November'],
  ['deferred@simulator.test', 'Your login code is 482913'],
  ['bounced@simulator.test', 'Reset your password'],
];

const SUPPRESSED = [
  ['jo@harbour.example', 'hard_bounce'],
  ['kim@lagoon.example', 'complaint'],
  ['lea@quay.example', 'unsubscribe'],
  ['max@pier.example', 'manual'],
] as const;

/**
 * Stores the mail of eight days by hour, more in the middle of a day. In the morning providers defer some of it.
 * $2: the time at which they end.
 */
const HISTORY = `
insert into stats (project_id, environment, granularity, dimension, period, value, emails, recipients,
                   sent, delivered, deferred, bounced, failed, suppressed, canceled, complained, opened,
                   clicked, latencies)
select $1::uuid, 'test', 'hour', series.dimension, period.at, series.value, emails, emails, 0,
       emails - bounced, deferred, bounced, 0, 0, 0, (emails > 1200 and hours % 3 = 0)::int, 0, 0,
       array[0, emails - bounced - slow, 0, slow, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
  from generate_series(1, 191) hours
 cross join lateral (
    select date_trunc('hour', $2::timestamptz, 'UTC') - hours * interval '1 hour' as at) period
 cross join (values ('total', '', 1.0), ('domain', 'acme.com', 0.7), ('domain', 'shop.example', 0.3),
                    ('provider', 'Google', 0.6), ('provider', 'Microsoft', 0.4))
            series(dimension, value, share)
 cross join lateral (
    select round(series.share * (900 - 600 * cos(extract(hour from period.at) * pi() / 12)) + hours * 7 % 90)::int
             as emails) counted
 cross join lateral (
    select (emails * (0.022 + 0.008 * sin(hours / 4.0)))::int as bounced,
           case when extract(hour from period.at) between 6 and 9 then emails / 6 else emails / 40 end as deferred,
           case when extract(hour from period.at) between 6 and 9 then emails / 8 else emails / 100 end as slow) rest
on conflict do nothing`;

export type FullOptions = {
  /** Recipients at the simulator and subjects. By default there is one for each outcome. */
  mail?: typeof MAIL;
  /** The end of the figures; by default now. */
  historyUntil?: Date;
  /** By default nothing listens there. */
  webhookUrl?: string;
};

export async function startFullService(options: FullOptions = {}): Promise<FullService> {
  const { mail = MAIL, historyUntil = new Date(), webhookUrl = UNREACHABLE } = options;
  const dns = await startFakeDns();
  dns.set('a.root-servers.net', 'A', ['198.41.0.4']);
  dns.set(HOST, 'A', ['127.0.0.1']);
  dns.set('1.0.0.127.in-addr.arpa', 'PTR', [HOST]);
  dns.set('hooks.example.org', 'A', ['127.0.0.1']);
  const service = await startService({
    database: 'own',
    dns,
    env: { LETTERHAUS_HOSTNAME: HOST, LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1' },
  });
  const owner = await ownerOf(service);
  const project = String((await owner.get('/v1/session')).body.projects[0].id);
  await service.sql(HISTORY, [project, historyUntil]);
  await memberOf(service, owner, 'viewer');
  await owner.post('/v1/invitations', { email: 'sam@acme.test', role: 'developer' });
  const made = {
    webhook: await makeWebhook(service, webhookUrl),
    template: await makeTemplate(service),
  };
  const { body: domain } = await service.request('POST', '/v1/domains', {
    body: { name: 'news.example' },
  });
  for (const [address, reason] of SUPPRESSED)
    await service.request('POST', '/v1/suppressions', { body: { address, reason } });
  await service.request('POST', '/v1/emails', { body: { from: 'nobody' } });
  const email = await sendMail(service, mail);
  return {
    ...made,
    service,
    owner,
    project,
    email,
    domain: String(domain.id),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await dns[Symbol.asyncDispose]();
    },
  };
}

/** @returns the id of the webhook, which has one delivery */
async function makeWebhook(service: Service, url: string): Promise<string> {
  const body = { url };
  const id = String((await service.request('POST', '/v1/webhooks', { body })).body.id);
  await service.request('POST', `/v1/webhooks/${id}/test`);
  return id;
}

/** @returns the id of the template, whose second version is a draft */
async function makeTemplate(service: Service): Promise<string> {
  const body = {
    name: 'Receipt',
    alias: 'receipt',
    subject: 'Your receipt, {{ name }}',
    html: '<h1>Thank you, {{ name }}</h1>\n{% for item in items %}<p>{{ item }}</p>{% endfor %}',
    variables: [{ name: 'name' }, { name: 'items', type: 'list', default: ['Tea', 'Cups'] }],
  };
  const id = String((await service.request('POST', '/v1/templates', { body })).body.id);
  await service.request('POST', `/v1/templates/${id}/publish`, { body: {} });
  const draft = { subject: 'Thank you, {{ name }}' };
  await service.request('PATCH', `/v1/templates/${id}`, { body: draft });
  return id;
}

/** @returns the id of the last email */
async function sendMail(service: Service, mail: typeof MAIL): Promise<string> {
  let id = '';
  for (const [to, subject] of mail) {
    id = await service.send({ to, subject });
    // The name of a simulated address is its outcome. One after the other, so that events have one order.
    const [outcome = ''] = to.split('@');
    await service.waitForStatus(id, outcome);
  }
  return id;
}
