#!/bin/sh
# Makes the certificates of the fake mail servers anew, with the openssl command (3.x).
# They are checked in, valid for 100 years, because Node cannot sign certificates and the tests
# must run where openssl is not installed. The keys protect nothing.
#
#   ca.pem           the authority the tests trust
#   trusted.pem      mx.test, *.mx.test, localhost, signed by it
#   other-name.pem   other.test, signed by it
#   expired.pem      the names of trusted.pem, ended in 2021
#   self-signed.pem  the names of trusted.pem, signed by nobody
#   policy.pem       mta-sts.sts1.test to mta-sts.sts30.test, signed by it
#
# Each .pem but ca.pem holds the key and the certificate.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

names='subjectAltName=DNS:mx.test,DNS:*.mx.test,DNS:localhost'
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$work/$1.key"; }

# certify NAME EXTENSION END [-selfsign]: signed by the authority, or by itself
certify() {
  key "$1"
  openssl req -new -key "$work/$1.key" -subj "/CN=$1" -out "$work/$1.csr"
  printf '%s\n' "$2" > "$work/$1.ext"
  : > "$work/index"
  signer=ca
  if [ $# = 4 ]; then signer=$1; fi
  openssl ca -batch -notext -config "$work/ca.cnf" -keyfile "$work/$signer.key" \
    -startdate 20200101000000Z -enddate "$3" ${4-} -in "$work/$1.csr" -extfile "$work/$1.ext" \
    -out "$work/$1.crt" 2> /dev/null
  cat "$work/$1.key" "$work/$1.crt" > "$1.pem"
}
cat > "$work/ca.cnf" << CNF
[ca]
default_ca = test
[test]
database = $work/index
new_certs_dir = $work
certificate = $work/ca.crt
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
CNF

late=21200101000000Z
certify ca 'basicConstraints=critical,CA:TRUE' $late -selfsign
cp "$work/ca.crt" ca.pem
certify trusted "$names" $late
certify other-name 'subjectAltName=DNS:other.test' $late
certify expired "$names" 20210101000000Z
policies=$(seq -s ',' -f 'DNS:mta-sts.sts%g.test' 1 30)
certify policy "subjectAltName=$policies" $late
certify self-signed "$names" $late -selfsign
