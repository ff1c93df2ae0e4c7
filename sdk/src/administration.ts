/** Resources about projects, people, the service and its installation. A sending application rarely needs them. */
import { type ChangeOptions, conditionOf, Resource } from './resource.ts';
import type { Body, Query, Result } from './transport.ts';

export class Projects extends Resource {
  list() {
    return this.call('listProjects');
  }

  create(name: string) {
    return this.call('createProject', {}, { name });
  }

  rename(id: string, name: string, options?: ChangeOptions) {
    return this.call('updateProject', { id }, { name }, conditionOf(options));
  }

  /** Address and SMTP ports of the service. */
  connection() {
    return this.call('getConnection');
  }

  /** The limits of the key's project and environment. */
  limits() {
    return this.call('getLimits');
  }
}

/**
 * Like `Projects.create` and `Operator`, only for the command line on the service's machine: no API key may use it.
 */
export class Members extends Resource {
  list(query: Query<'listMembers'> = {}) {
    return this.pages('listMembers', { query });
  }

  update(id: string, change: Body<'updateMember'>, options?: ChangeOptions) {
    return this.call('updateMember', { id }, change, conditionOf(options));
  }

  remove(id: string, options?: ChangeOptions) {
    return this.call('removeMember', { id }, undefined, conditionOf(options));
  }

  invitations() {
    return this.call('listInvitations');
  }

  /** Returns the link, which no other response contains. */
  invite(invitation: Body<'createInvitation'>) {
    return this.call('createInvitation', {}, invitation);
  }

  revokeInvitation(id: string) {
    return this.call('revokeInvitation', { id });
  }

  signInPolicy() {
    return this.call('getSignInPolicy');
  }

  setSignInPolicy(change: Body<'updateSignInPolicy'>, options?: ChangeOptions) {
    return this.call('updateSignInPolicy', {}, change, conditionOf(options));
  }
}

export class AuditLog extends Resource {
  list(query: Query<'listAuditEvents'> = {}) {
    return this.pages('listAuditEvents', { query });
  }
}

/** The API log. */
export class Requests extends Resource {
  list(query: Query<'listRequests'> = {}) {
    return this.pages('listRequests', { query });
  }

  /** @param id value of X-Request-Id, which is the `requestId` of a LetterhausError */
  get(id: string) {
    return this.call('getRequest', { id });
  }
}

export class Recipients extends Resource {
  /** Lists recipients of stored emails, those with the newest email first. `q` is a part of an address. */
  list(query: Query<'listRecipients'> = {}) {
    const positionOf = ({ last_email_id: id }: { last_email_id: string }) => id;
    return this.pages('listRecipients', { query, positionOf });
  }

  /** Returns why an address gets no mail: its suppression, refused requests and the last reply. */
  get(address: string): Promise<Result<'getRecipient'>> {
    return this.transport.json('getRecipient', { path: { address } });
  }

  /** Returns the events of the emails to an address, with the replies of mail servers, and its suppressions. */
  log(address: string, query: Query<'getRecipientLog'> = {}): Promise<Result<'getRecipientLog'>> {
    return this.transport.json('getRecipientLog', { path: { address }, query });
  }
}

export class Service extends Resource {
  health() {
    return this.call('getHealth');
  }

  /** @throws LetterhausError 503 while it cannot serve requests */
  readiness() {
    return this.call('getReadiness');
  }

  /** Returns the public key that signs case files. */
  receiptKey() {
    return this.call('getReceiptKey');
  }

  /** Returns what the operator must act on. Needs an operator's key. */
  conditions() {
    return this.call('listOperatorConditions');
  }

  /** Returns whether all accepted mail is accounted for. Needs an operator's key. */
  reconciliation() {
    return this.call('getReconciliation');
  }
}

/** The installation as a whole, for the command line on its machine, whose requests need no key. */
export class Operator extends Resource {
  status() {
    return this.call('getStatus');
  }

  /** Returns the variables of the service, without secrets. */
  variables() {
    return this.call('listVariables');
  }

  /** Returns what the doctor of each running node found last. */
  doctor() {
    return this.call('getDoctor');
  }

  /** Asks each running node to run the doctor. `doctor` shows the progress. */
  runDoctor() {
    return this.call('runDoctor');
  }

  projects() {
    return this.call('listInstallationProjects');
  }

  projectSettings(id: string) {
    return this.call('getProjectSettings', { id });
  }

  updateProjectSettings(
    id: string,
    change: Body<'updateProjectSettings'>,
    options?: ChangeOptions,
  ) {
    return this.call('updateProjectSettings', { id }, change, conditionOf(options));
  }

  /** A large queue needs several calls: pass `next` of the result as `from`. */
  resumeProject(id: string, place: Body<'resumeProject'> = {}) {
    return this.call('resumeProject', { id }, place);
  }

  /** Returns messages received by SMTP. */
  inbound(query: Query<'listInbound'> = {}) {
    return this.pages('listInbound', { query });
  }

  getInbound(id: string) {
    return this.call('getInbound', { id });
  }

  providerBlocks() {
    return this.call('listProviderBlocks');
  }

  probeProvider(provider: string) {
    return this.call('probeProvider', { provider });
  }

  tlsResults(query: Query<'listTlsResults'> = {}): Promise<Result<'listTlsResults'>> {
    return this.transport.json('listTlsResults', { query });
  }

  returnPathHost() {
    return this.call('getReturnPathHost');
  }

  setReturnPathHost(name: string, options?: ChangeOptions) {
    return this.call('setReturnPathHost', {}, { name }, conditionOf(options));
  }

  retention() {
    return this.call('getRetention');
  }

  confirmRetention() {
    return this.call('confirmRetention');
  }

  /** @throws LetterhausError 409 unless the installation was restored and is on hold */
  hold() {
    return this.call('getHold');
  }

  release(options: Body<'endHold'> = {}) {
    return this.call('endHold', {}, options);
  }

  reconciledDays(query: Query<'listReconciledDays'> = {}): Promise<Result<'listReconciledDays'>> {
    return this.transport.json('listReconciledDays', { query });
  }

  checkReconciliation(which: Body<'checkReconciliation'> = {}) {
    return this.call('checkReconciliation', {}, which);
  }

  acknowledgeReconciliation(which: Body<'acknowledgeReconciliation'>) {
    return this.call('acknowledgeReconciliation', {}, which);
  }
}
