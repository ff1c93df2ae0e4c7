/** Problems with an object store, as one sentence for the operator that says what to do. */

export type S3Failure =
  | {
      kind: 'refused';
      status: number;
      /** The code of S3, such as NoSuchBucket, or null when the response had none. */
      code: string | null;
      /** The right region, according to the store. */
      region: string | null;
      dateMs: number | null;
    }
  /** No response. `code` is the system's code, such as ECONNREFUSED or ETIMEDOUT. */
  | { kind: 'broken'; code: string };

export type S3Facts = {
  host: string;
  bucket: string;
  /** s3://bucket/key */
  location: string;
  method: string;
  region: string;
  isAws: boolean;
  nowMs: number;
};

const ACTION_OF_METHOD: Record<string, string> = {
  GET: 'reading',
  HEAD: 'reading',
  PUT: 'writing',
  POST: 'writing',
  DELETE: 'deleting',
};

export class S3Problem extends Error {
  override readonly name = 'S3Problem';
}

export function problemFor(failure: S3Failure, facts: S3Facts): S3Problem {
  return new S3Problem(
    failure.kind === 'broken'
      ? connectionProblem(failure.code, facts)
      : refusalProblem(failure, facts),
  );
}

function connectionProblem(code: string, { host, location, isAws }: S3Facts): string {
  if (/CERT|^ERR_TLS|SIGNED/.test(code)) {
    return `The certificate of ${host} is not accepted (${code}): correct the endpoint, or name its authority in NODE_EXTRA_CA_CERTS.`;
  }
  if (code === 'RESPONSE_TOO_LARGE') {
    return `${host} returned more of ${location} than requested: it is not an S3-compatible object store.`;
  }
  if (code === 'ENOTFOUND' && isAws) {
    return `${host} is not found (${code}): correct the bucket and AWS_REGION, or set LETTERHAUS_BACKUP_S3_ENDPOINT for a store other than AWS.`;
  }
  return `${host} does not respond (${code}): check the network${isAws ? '' : ' and LETTERHAUS_BACKUP_S3_ENDPOINT'}.`;
}

type Refused = Extract<S3Failure, { kind: 'refused' }>;

function refusalProblem(failure: Refused, facts: S3Facts): string {
  return (
    credentialsProblem(failure, facts) ??
    bucketProblem(failure, facts) ??
    storeProblem(failure, facts)
  );
}

function credentialsProblem({ status, code, dateMs }: Refused, facts: S3Facts): string | null {
  const { host, location, method, nowMs } = facts;
  switch (code) {
    case 'RequestTimeTooSkewed': {
      const minutes = dateMs === null ? null : Math.round(Math.abs(nowMs - dateMs) / 60_000);
      const by = minutes === null ? '' : ` by ${minutes} minutes`;
      return `The clock of this machine differs from that of ${host}${by}: set it (timedatectl set-ntp true).`;
    }
    case 'InvalidAccessKeyId':
    case 'SignatureDoesNotMatch':
    case 'InvalidSecurity':
      return `${host} does not accept the credentials (${code}): correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.`;
    case 'ExpiredToken':
    case 'InvalidToken':
    case 'TokenRefreshRequired':
      return `${host} does not accept the session (${code}): renew AWS_SESSION_TOKEN and its keys.`;
    default:
      if (status !== 401 && (status !== 403 || /Quota|Full$/.test(code ?? ''))) return null;
      return `${host} denies ${ACTION_OF_METHOD[method] ?? method} ${location} (${code ?? status}): permit it to AWS_ACCESS_KEY_ID.`;
  }
}

function bucketProblem({ status, code, region }: Refused, facts: S3Facts): string | null {
  const { host, bucket, location } = facts;
  if (code === 'NoSuchBucket') {
    return `There is no bucket ${bucket} at ${host}: create it, or correct the name.`;
  }
  const isElsewhere = code === 'AuthorizationHeaderMalformed' || (status >= 300 && status < 400);
  if (isElsewhere && region !== null && region !== facts.region) {
    return `The bucket ${bucket} is in the region ${region}: set AWS_REGION=${region}.`;
  }
  if (isElsewhere) {
    return `${host} sends requests for ${bucket} elsewhere (${code ?? status}): set AWS_REGION and LETTERHAUS_BACKUP_S3_ENDPOINT to those of the bucket.`;
  }
  return status === 404 ? `There is no ${location}.` : null;
}

function storeProblem({ status, code }: Refused, { host, location, method }: S3Facts): string {
  const reason = code === null ? `status ${status}` : `${code}, status ${status}`;
  if (status === 507 || /Full$|Quota/.test(code ?? '')) {
    return `${host} has no space for ${location} (${reason}): delete something there, or raise its quota.`;
  }
  if ((status >= 500 && status !== 501) || status === 429) {
    return `${host} fails (${reason}), also after retries: check the store, and run this again later.`;
  }
  return `${host} refused ${ACTION_OF_METHOD[method] ?? method} ${location} (${reason}): it may not support the required parts of S3.`;
}
