/**
 * Constructs dry runs and diagnoses. They use the parts of accept and delivery, and share one allowance of look-ups.
 */
import type { Environment } from '../../core/scope.ts';
import { type FindRoute, SIMULATED_ROUTE } from '../../delivery/route/route-finding.ts';
import type { DomainService } from '../../domains/domains.ts';
import { LookupAllowance } from '../../net/dns/lookup-allowance.ts';
import type { NewEmailOptions } from '../../accept/email-of-draft.ts';
import { createDiagnose, type Diagnose } from '../../emails/diagnosis/diagnosis.ts';
import { createDryRun, type DryRun } from '../../accept/dry-run/dry-run.ts';
import { rehearse } from '../../accept/store/full-path.ts';
import type { Database, Queryable } from '../../database/database.ts';
import { systemWorld } from '../machine/system-world.ts';
import type { WorkerContext } from './worker-context.ts';

type InquiryOptions = {
  dispatcher: NewEmailOptions['handOver'];
  findRoute: FindRoute;
  domains: DomainService;
  isSettlingStalled: () => boolean;
};

export function createInquiries(
  context: WorkerContext,
  options: InquiryOptions,
): { dryRun: DryRun; diagnose: Diagnose } {
  const { builder, config, db } = context;
  const { dispatcher, domains, findRoute } = options;
  const { sending: limit, recipients: recipientLimit } = config.limits;
  const allowance = new LookupAllowance(systemWorld);
  const routeFor = createFindRouteFor(findRoute);
  const dryRun = createDryRun({
    handOver: dispatcher,
    world: systemWorld,
    rehearse: (email) => rehearse(db, email, { limit, recipientLimit }),
    compose: (message, recipient) => builder.build(message, recipient),
    authenticate: (message, ask) =>
      domains.authentication(message, {
        id: message.domainId,
        dualSigned: message.dualSigned,
        ask,
      }),
    findRoute: ({ environment, tls }, destination) => routeFor(environment, destination, tls),
    allowance,
  });
  return { dryRun, diagnose: createDiagnosis(db, allowance, options) };
}

function createDiagnosis(
  db: Queryable & Pick<Database, 'transaction'>,
  allowance: LookupAllowance,
  { domains, findRoute, isSettlingStalled }: InquiryOptions,
): Diagnose {
  const routeFor = createFindRouteFor(findRoute);
  return createDiagnose({
    db,
    allowance,
    isSettlingStalled,
    authenticate: ({ projectId, environment }, { domainId: id, dualSigned }, ask) =>
      domains.authentication({ projectId, environment }, { id, dualSigned, ask }),
    findRoute: ({ environment }, destination, tls) => routeFor(environment, destination, tls),
  });
}

/** Test mail goes to the simulator. */
function createFindRouteFor(findRoute: FindRoute) {
  return (environment: Environment, ...wanted: Parameters<FindRoute>) =>
    environment === 'test' ? Promise.resolve(SIMULATED_ROUTE) : findRoute(...wanted);
}
