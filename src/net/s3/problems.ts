/** Problems with an object store, as one sentence for the operator that says what to do. */

export type S3Failure =
  | {
      kind: 'refused';
      status: number;
      /** The code of S3, such as NoSuchBucket; null: the answer had none. */
      code: string | null;
      /** The right region, according to the store. */
      region: string | null;
      dateMs: number | null;
    }
  /** No answer. @property code the system's code, such as ECONNREFUSED or ETIMEDOUT */
  | { kind: 'broken'; code: string };

export type S3Facts = {
  host: string;
  bucket: string;
  /** s3://bucket/key */
  place: string;
  method: string;
  region: string;
  isAws: boolean;
  nowMs: number;
};

export class S3Problem extends Error {
  override readonly name = 'S3Problem';
}

export function problemOf(failure: S3Failure, facts: S3Facts): S3Problem {
  return new S3Problem(
    failure.kind === 'broken' ? broken(failure.code, facts) : refused(failure, facts),
  );
}

function broken(code: string, { host, place, isAws }: S3Facts): string {
  if (/CERT|^ERR_TLS|SIGNED/.test(code)) {
    return `The certificate of ${host} is not accepted (${code}): correct the endpoint, or name its authority in NODE_EXTRA_CA_CERTS.`;
  }
  if (code === 'ANSWER_TOO_LARGE') {
    return `${host} returned more of ${place} than requested: it is not an S3-compatible object store.`;
  }
  if (code === 'ENOTFOUND' && isAws) {
    return `${host} is not found (${code}): correct the bucket and AWS_REGION, or set LETTERHAUS_BACKUP_S3_ENDPOINT for a store other than AWS.`;
  }
  return `${host} does not answer (${code}): check the network${isAws ? '' : ' and LETTERHAUS_BACKUP_S3_ENDPOINT'}.`;
}

type Refused = Extract<S3Failure, { kind: 'refused' }>;

function refused(failure: Refused, facts: S3Facts): string {
  return ofCredentials(failure, facts) ?? ofBucket(failure, facts) ?? ofStore(failure, facts);
}

function ofCredentials({ status, code, dateMs }: Refused, facts: S3Facts): string | null {
  const { host, place, method, nowMs } = facts;
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
      return `${host} denies ${ACTS[method] ?? method} ${place} (${code ?? status}): permit it to AWS_ACCESS_KEY_ID.`;
  }
}

const ACTS: Record<string, string> = {
  GET: 'reading',
  HEAD: 'reading',
  PUT: 'writing',
  POST: 'writing',
  DELETE: 'deleting',
};

function ofBucket({ status, code, region }: Refused, facts: S3Facts): string | null {
  const { host, bucket, place } = facts;
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
  return status === 404 ? `There is no ${place}.` : null;
}

function ofStore({ status, code }: Refused, { host, place, method }: S3Facts): string {
  const why = code === null ? `status ${status}` : `${code}, status ${status}`;
  if (status === 507 || /Full$|Quota/.test(code ?? '')) {
    return `${host} has no space for ${place} (${why}): delete something there, or raise its quota.`;
  }
  if ((status >= 500 && status !== 501) || status === 429) {
    return `${host} fails (${why}), also after retries: check the store, and run this again later.`;
  }
  return `${host} refused ${ACTS[method] ?? method} ${place} (${why}): it may not support the required parts of S3.`;
}
