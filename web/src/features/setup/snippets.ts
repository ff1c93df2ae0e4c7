/**
 * A program that sends one email, in several languages, with address and key filled in. Each uses what comes with the
 * language, except Rust. docs/clients.md has the same programs, and a test compares them.
 */

export type Sending = {
  /** Address of the service, without a trailing slash. */
  url: string;
  key: string;
  from: string;
  to: string;
  /** Where programs send by SMTP; null when the service takes no mail by SMTP. */
  smtp: { host: string; port: number } | null;
};

export type Language = (typeof LANGUAGES)[number][0];

export const LANGUAGES = [
  ['curl', 'curl', curl],
  ['node', 'Node.js', node],
  ['python', 'Python', python],
  ['go', 'Go', go],
  ['php', 'PHP', php],
  ['ruby', 'Ruby', ruby],
  ['java', 'Java', java],
  ['rust', 'Rust', rust],
  ['smtp', 'SMTP', smtp],
] as const;

export function snippetOf(language: Language, sending: Sending): string {
  const write = LANGUAGES.find(([name]) => name === language)?.[2] ?? curl;
  return write(sending);
}

const SUBJECT = 'Hello from Letterhaus';
const TEXT = 'It works.';

function curl({ url, key, from, to }: Sending): string {
  return `curl ${url}/v1/emails \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' \\
  -d '{
    "from": "${from}",
    "to": "${to}",
    "subject": "${SUBJECT}",
    "text": "${TEXT}"
  }'`;
}

function node({ url, key, from, to }: Sending): string {
  return `const response = await fetch('${url}/v1/emails', {
  method: 'POST',
  headers: {
    authorization: 'Bearer ${key}',
    'content-type': 'application/json',
  },
  body: JSON.stringify({
    from: '${from}',
    to: '${to}',
    subject: '${SUBJECT}',
    text: '${TEXT}',
  }),
});
console.log(response.status, await response.text());`;
}

function python({ url, key, from, to }: Sending): string {
  return `import json
from urllib.request import Request, urlopen

request = Request(
    "${url}/v1/emails",
    data=json.dumps({
        "from": "${from}",
        "to": "${to}",
        "subject": "${SUBJECT}",
        "text": "${TEXT}",
    }).encode(),
    headers={
        "Authorization": "Bearer ${key}",
        "Content-Type": "application/json",
    },
)
with urlopen(request) as response:
    print(response.status, response.read().decode())`;
}

function go({ url, key, from, to }: Sending): string {
  return `package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

func main() {
	body := \`{
		"from": "${from}",
		"to": "${to}",
		"subject": "${SUBJECT}",
		"text": "${TEXT}"
	}\`
	request, err := http.NewRequest("POST", "${url}/v1/emails", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer ${key}")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	fmt.Println(response.Status, string(text))
}`;
}

function php({ url, key, from, to }: Sending): string {
  return `<?php
$context = stream_context_create(['http' => [
    'method' => 'POST',
    'header' => [
        'Authorization: Bearer ${key}',
        'Content-Type: application/json',
    ],
    'content' => json_encode([
        'from' => '${from}',
        'to' => '${to}',
        'subject' => '${SUBJECT}',
        'text' => '${TEXT}',
    ]),
    'ignore_errors' => true,
]]);
echo file_get_contents('${url}/v1/emails', false, $context), "\\n";`;
}

function ruby({ url, key, from, to }: Sending): string {
  return `require 'json'
require 'net/http'

response = Net::HTTP.post(
  URI('${url}/v1/emails'),
  {
    from: '${from}',
    to: '${to}',
    subject: '${SUBJECT}',
    text: '${TEXT}'
  }.to_json,
  'Authorization' => 'Bearer ${key}',
  'Content-Type' => 'application/json'
)
puts response.code, response.body`;
}

function java({ url, key, from, to }: Sending): string {
  return `import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

public class Send {
    public static void main(String[] args) throws Exception {
        String body = """
            {
              "from": "${from}",
              "to": "${to}",
              "subject": "${SUBJECT}",
              "text": "${TEXT}"
            }""";
        HttpRequest request = HttpRequest.newBuilder(URI.create("${url}/v1/emails"))
            .header("Authorization", "Bearer ${key}")
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
        var response = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        System.out.println(response.statusCode() + " " + response.body());
    }
}`;
}

function rust({ url, key, from, to }: Sending): string {
  return `// cargo add ureq@3 --features json && cargo add serde_json
use serde_json::json;

fn main() -> Result<(), ureq::Error> {
    let mut response = ureq::post("${url}/v1/emails")
        .header("Authorization", "Bearer ${key}")
        .send_json(json!({
            "from": "${from}",
            "to": "${to}",
            "subject": "${SUBJECT}",
            "text": "${TEXT}"
        }))?;
    println!("{} {}", response.status(), response.body_mut().read_to_string()?);
    Ok(())
}`;
}

const TLS_FROM_THE_START = 465;

/** The same ports and credentials work for every mail library. */
function smtp({ key, from, to, smtp: server }: Sending): string {
  if (server === null)
    return 'The service takes no mail by SMTP: LETTERHAUS_SUBMISSION_PORTS is not set.';
  const { host, port } = server;
  const address = /<(.+)>$/.exec(from)?.[1] ?? from;
  const scheme = port === TLS_FROM_THE_START ? 'smtps' : 'smtp';
  return `curl ${scheme}://${host}:${port} --ssl-reqd \\
  --user 'letterhaus:${key}' \\
  --mail-from ${address} --mail-rcpt ${to} \\
  --upload-file - <<'END'
From: ${from}
To: ${to}
Subject: ${SUBJECT}

${TEXT}
END`;
}
