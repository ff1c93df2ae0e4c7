/**
 * The step about DMARC: shows the next policy, none → quarantine → reject, that the stored reports allow. It never
 * changes the record, because only the owner knows which other services send for the domain.
 */
import type { Domain } from '../../sdk/src/api.ts';
import type { GoLive, Step } from './command-step.ts';

const LINES_MAX = 10;

export async function proposeDmarc({ client }: GoLive, { id }: Domain): Promise<Step> {
  const { object: _, message, ...data } = await client.domains.dmarc(id);
  const sources = data.reports?.sources ?? [];
  const failing = sources.filter(({ failed }) => failed > 0).slice(0, LINES_MAX);
  return {
    step: 'dmarc',
    state: ['no_record', 'invalid_record', 'dns_error'].includes(data.state) ? 'todo' : 'done',
    message,
    lines: failing.map(({ ip, passed, failed }) => `${ip}: ${failed} failed, ${passed} passed`),
    data: { ...data, dmarc_state: data.state },
  };
}
