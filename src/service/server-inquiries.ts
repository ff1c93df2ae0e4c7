/**
 * Constructs dry runs. They use the parts that accepting and delivery use, and share one allowance of look-ups.
 */
import { type FindRoute, SIMULATED_ROUTE } from '../delivery/route-finding.ts';
import type { DomainService } from '../domains/service.ts';
import { LookupAllowance } from '../net/dns/allowance.ts';
import type { AcceptOptions } from '../sending/accept.ts';
import { createDryRun, type DryRun } from '../sending/dry-run.ts';
import { rehearse } from '../store/dry-run.ts';
import { systemWorld } from './system-world.ts';
import type { WorkerContext } from './worker-context.ts';

/** The parts of the other halves of a worker that are used. */
type Parts = {
  dispatcher: AcceptOptions['dispatcher'];
  findRoute: FindRoute;
  domains: DomainService;
};

export function createInquiries(context: WorkerContext, parts: Parts): { dryRun: DryRun } {
  const { builder, config, db } = context;
  const { dispatcher, domains, findRoute } = parts;
  const { sending: limit, recipients: recipientLimit } = config.limits;
  const dryRun = createDryRun({
    dispatcher,
    world: systemWorld,
    rehearse: (email) => rehearse(db, email, { limit, recipientLimit }),
    compose: (message, recipient) => builder.build(message, recipient),
    authenticate: (message, ask) =>
      domains.authentication(message, {
        id: message.domainId,
        dualSigned: message.dualSigned,
        ask,
      }),
    findRoute: ({ environment, tls }, destination) =>
      environment === 'test' ? Promise.resolve(SIMULATED_ROUTE) : findRoute(destination, tls),
    allowance: new LookupAllowance(systemWorld),
  });
  return { dryRun };
}
