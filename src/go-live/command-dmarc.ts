/**
 * The step about DMARC: proposes the next policy, none → quarantine → reject. It never changes the record, because only
 * the owner knows which other services send for the domain.
 */
import { findDmarcRecords, parseDmarcTags } from '../domains/dns/dmarc-records.ts';
import { createResolver, systemServers } from '../net/dns/resolver.ts';
import type { GoLive, Step } from './command-step.ts';

const step = 'dmarc';
const NEXT: Readonly<Record<string, string>> = { none: 'quarantine', quarantine: 'reject' };

export async function proposeDmarc({ cli: { world }, config, name }: GoLive): Promise<Step> {
  const servers = config.dnsServers ?? systemServers();
  const resolver = createResolver({ servers, world, trustAuthenticatedData: config.dnsTrustAd });
  try {
    const found = await findDmarcRecords(name, resolver);
    if (found?.kind === 'error') {
      const message = `DNS gave no answer about the DMARC record of ${name}: ${found.message}.`;
      return { step, state: 'todo', message };
    }
    const [text, ...others] = found?.texts ?? [];
    if (found === null || text === undefined) {
      const message = `DNS has no DMARC record of ${name} yet. Publish the TXT record "v=DMARC1; p=none; rua=mailto:dmarc@${name}" at _dmarc.${name}.`;
      return { step, state: 'todo', message };
    }
    if (others.length > 0) {
      const message = `_dmarc.${found.at} has several DMARC records, so receivers ignore them. Keep one.`;
      return { step, state: 'todo', message };
    }
    return propose(found.at, text);
  } finally {
    resolver.close();
  }
}

function propose(at: string, text: string): Step {
  const policy = parseDmarcTags(text).get('p') ?? '';
  const next = NEXT[policy];
  const data = { record: text, policy, proposal: null };
  if (policy === 'reject') {
    const message = `The DMARC policy of ${at} is reject, the strictest one.`;
    return { step, state: 'done', message, data };
  }
  if (next === undefined) {
    const message = `The DMARC record of ${at} has no valid policy. Write p=none, p=quarantine or p=reject.`;
    return { step, state: 'todo', message, data };
  }
  const proposal = text.replace(/(;\s*p\s*=\s*)\w+/i, `$1${next}`);
  const message = `The DMARC policy of ${at} is ${policy}. When the aggregate reports of two weeks show that all your mail passes, change the record to "${proposal}".`;
  return { step, state: 'done', message, data: { ...data, proposal } };
}
